// Package limits reads limits from a YAML file, and makes a limiter of package reserve for
// each. The file is checked as a whole, every error is told with its line, and the file
// can be read again while the program runs.
//
//	limits:
//	  - name: openai-requests
//	    limit: 500/minute burst 10
//	  - name: openai-day
//	    limit: 2000/day quota in Europe/Berlin
//	  - name: shop
//	    key: "{shop}/{token}"
//	    limit: 2/s burst 30
//
//	set, err := limits.Load(client, "limits.yaml", reserve.Config{Logger: slog.Default()})
//	if err != nil {
//		return err
//	}
//	defer set.Close()
//	go set.Watch(ctx, 10*time.Second)
//	...
//	limiter, err := set.Get("openai-requests")
//	if err != nil {
//		return err
//	}
//	if err := limiter.Wait(ctx); err != nil {
//		return err
//	}
//
// # The file
//
// It holds one list, limits, of up to 1 MiB in UTF-8. A limit has these fields:
//
//	name          what the fleet shares, reserve.Config.Name: up to 128 bytes. Required
//	limit         as reserve.ParseLimit reads it. Required
//	key           a limit for each tenant, host or account: see below
//	share         whose call it is: see below
//	weights       of those whose calls they are: see below
//	kind          paced, warming up, quota, rolling or slots. The limit's text says it already;
//	              a kind that differs from it is an error
//	group         reserve.Config.Group: for limits that a call may need together, see
//	              [Set.All]
//	settles       reserve.Config.Settles: true or false
//	lease         reserve.Config.Lease: a duration
//	max-pause     reserve.Config.MaxPause: a duration
//	outage        reserve.Outage.Policy: local, wait, fail or open
//
// What a limit does not say is as in the reserve.Config that was given to [Load]. These are
// errors: a field that is not known or is given twice, a name that two limits have, a file
// without limits. Anchors are allowed, aliases and tags are not, so a file is never larger
// than it looks.
//
// # Keys
//
// A key is a template with names in braces. [Set.For] fills it, and the result is the key
// of reserve.Limiter.For. A name has letters, digits, underscores and dashes. Between two
// names stands a text that begins with a punctuation mark. In the value before it, that
// mark and % are percent-encoded. So different values never make the same key, whatever
// they hold:
//
//	"{shop}/{token}"   acme     t1/x   acme/t1/x
//	"{shop}/{token}"   acme/t1  x      acme%2Ft1/x
//
// # Shares
//
// A share is a template, too. [Set.For] fills it with the same values, and the result is the
// flow of reserve.Limiter.Flow. Where calls wait, each flow has its share of the limit, however
// many calls of others wait. Weights are by the name of the flow. The weight default is that of
// all other flows, and is 1 if it is not given:
//
//	limits:
//	  - name: account
//	    limit: 100/s
//	    share: "{tenant}"
//	    weights: {acme: 3, free-tier: 0.5, default: 1}
//
// # Reading the file again
//
// [Set.Reload] and [Set.Watch] take a file as a whole or not at all: one with errors
// changes nothing. A limit that says the same as before, in whatever words, keeps its
// limiter: the same pointer. A limit that differs gets another limiter of the same name in
// Redis. Its calls stand in the same queue, if the kind of the limit is the same. A name that
// is gone is not known any more.
//
// A limiter that was replaced or removed is not closed, as that would end the calls that
// wait in it. Whoever holds it goes on with it, under the limit that it was made with. So
// ask the Set for each call or each job, and do not keep what it returns. In package
// worker, Config.Turn can ask, and in package transport, Config.Choose. What takes a
// limiter once and for all, as serve.Middleware does, stays with it.
//
// The Set keeps each limiter that it has made until [Set.Close], and uses it again when the
// file says again what it said then. A limiter in which no call waits has no goroutine and
// no connection.
//
// The processes of a fleet read the file at different moments, and calls that waited then go
// on in the old limiter. While both are in use, the slower of the two limits is in force
// for all (reserve.Config.Limit). A limit of another kind is refused until the old one has had no
// call for about 16 s, in no process: give it another name instead. A limit that was set for the whole fleet, with
// reserve.Limiter.SetLimit, stands above both.
//
// Replace the file by renaming another one onto it, as Kubernetes does with what it mounts.
// Watch takes a file only when it has read the same twice, so it does not take half of one
// that is being written. Reload takes what it finds.
package limits
