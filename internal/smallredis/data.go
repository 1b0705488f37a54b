package smallredis

import (
	"cmp"
	"slices"
	"strings"
)

// Data is the keys of a Redis, by their names. It is never changed in place, so a copy of the slice is a
// snapshot.
type Data []*Key

// Key is a hash or a sorted set.
type Key struct {
	Name  string
	Hash  bool
	Items []Item // by member, or by score in a sorted set
	Ends  int64  // when it expires, in micros; 0: never
}

// Item is a field of a hash, with its value, or a member of a sorted set, with its score.
type Item struct {
	Member, Value string
	Score         float64
}

func (d Data) at(name string) (at int, there bool) {
	return slices.BinarySearchFunc(d, name, func(k *Key, name string) int { return strings.Compare(k.Name, name) })
}

// Find returns the key with a name, or nil.
func (d Data) Find(name string) *Key {
	if at, there := d.at(name); there {
		return d[at]
	}
	return nil
}

// with returns the data with a key in place of the key of that name. A key without items is deleted.
func (d Data) with(k *Key) Data {
	at, there := d.at(k.Name)
	switch {
	case len(k.Items) > 0 && there:
		next := slices.Clone(d)
		next[at] = k
		return next
	case len(k.Items) > 0:
		return slices.Insert(slices.Clone(d), at, k)
	case there:
		return d.Without(k.Name)
	}
	return d
}

// Without returns the data without a key.
func (d Data) Without(name string) Data {
	return slices.DeleteFunc(slices.Clone(d), func(k *Key) bool { return k.Name == name })
}

// expire deletes the keys that have expired, and returns their names.
func (d Data) expire(now int64) (next Data, names []string) {
	for _, k := range d {
		if k.Ends > 0 && k.Ends <= now {
			names = append(names, k.Name)
		}
	}
	for _, name := range names {
		d = d.Without(name)
	}
	return d, names
}

// find returns the index of a member. If it is missing, at is where a hash would have it.
func (k *Key) find(member string) (at int, there bool) {
	if k.Hash {
		return slices.BinarySearchFunc(k.Items, member, func(i Item, member string) int { return strings.Compare(i.Member, member) })
	}
	at = slices.IndexFunc(k.Items, func(i Item) bool { return i.Member == member })
	return at, at >= 0
}

// Get returns the item with a member, or nil.
func (k *Key) Get(member string) *Item {
	if at, there := k.find(member); there {
		return &k.Items[at]
	}
	return nil
}

// copied returns a key whose items may be changed.
func (k *Key) copied() *Key {
	next := *k
	next.Items = slices.Clone(k.Items)
	return &next
}

// put adds an item, or replaces the item with its member.
func (k *Key) put(i Item) {
	at, there := k.find(i.Member)
	if k.Hash && there {
		k.Items[at] = i
		return
	}
	if there {
		k.Items = slices.Delete(k.Items, at, at+1)
	}
	if !k.Hash {
		at, _ = slices.BinarySearchFunc(k.Items, i, func(a, b Item) int {
			return cmp.Or(cmp.Compare(a.Score, b.Score), strings.Compare(a.Member, b.Member))
		})
	}
	k.Items = slices.Insert(k.Items, at, i)
}

// remove deletes items, and returns how many there were.
func (k *Key) remove(members []string) int64 {
	before := len(k.Items)
	for _, member := range members {
		if at, there := k.find(member); there {
			k.Items = slices.Delete(k.Items, at, at+1)
		}
	}
	return int64(before - len(k.Items))
}
