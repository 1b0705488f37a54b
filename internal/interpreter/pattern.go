package interpreter

import "strings"

// pattern is a pattern of Lua that is parsed once.
type pattern struct {
	head, tail bool // it begins with ^, or ends with $
	steps      []step
	captures   int
}

// step is a class of bytes, once or repeated, or the begin or the end of a capture.
type step struct {
	kind byte // one of * + - ?, or ( or ) of a capture; 0: once
	set  *[256]bool
	n    int // the number of the capture
}

const mostCaptures = 16

// parsed returns a pattern. If it has a form that the scripts do not use, ok is false.
func parsed(text string) (p *pattern, ok bool) {
	p = &pattern{}
	text, p.head = strings.CutPrefix(text, "^")
	if strings.HasSuffix(text, "$") && !strings.HasSuffix(text, "%$") {
		text, p.tail = text[:len(text)-1], true
	}
	open := 0
	for text != "" {
		switch c := text[0]; c {
		case '(':
			if open != 0 || p.captures == mostCaptures || strings.HasPrefix(text, "()") {
				return nil, false
			}
			open = 1
			p.steps, text = append(p.steps, step{kind: c, n: p.captures}), text[1:]
		case ')':
			if open == 0 {
				return nil, false
			}
			open = 0
			p.steps, text = append(p.steps, step{kind: c, n: p.captures}), text[1:]
			p.captures++
		default:
			s := step{set: new([256]bool)}
			if text, ok = s.class(text); !ok {
				return nil, false
			}
			if text != "" && strings.IndexByte("*+-?", text[0]) >= 0 {
				s.kind, text = text[0], text[1:]
			}
			p.steps = append(p.steps, s)
		}
	}
	return p, open == 0
}

// class reads a class of bytes, and returns the text that follows.
func (s *step) class(text string) (rest string, ok bool) {
	switch c := text[0]; c {
	case '.':
		for i := range s.set {
			s.set[i] = true
		}
		return text[1:], true
	case '[':
		end := strings.IndexByte(text, ']')
		if end < 0 {
			return "", false
		}
		return text[end+1:], s.anyOf(text[1:end])
	case '%':
		return s.letter(text[1:])
	case ']', '$', '*', '+', '-', '?', '^':
		return "", false
	default:
		s.set[c] = true
		return text[1:], true
	}
}

// anyOf reads what stands in square brackets.
func (s *step) anyOf(text string) (ok bool) {
	text, not := strings.CutPrefix(text, "^")
	if text == "" || text[0] == '-' || text[len(text)-1] == '%' {
		return false
	}
	for text != "" {
		switch {
		case text[0] == '%':
			if text, ok = s.letter(text[1:]); !ok {
				return false
			}
		case len(text) > 2 && text[1] == '-' && text[2] != '%':
			for c := int(text[0]); c <= int(text[2]); c++ {
				s.set[c] = true
			}
			text = text[3:]
		case text[0] == '-' || text[0] == '[':
			return false
		default:
			s.set[text[0]] = true
			text = text[1:]
		}
	}
	for i := range s.set {
		s.set[i] = s.set[i] != not
	}
	return true
}

// letter reads what follows a %.
func (s *step) letter(text string) (rest string, ok bool) {
	if text == "" {
		return "", false
	}
	has := func(ranges string) {
		for i := 0; i < len(ranges); i += 2 {
			for c := int(ranges[i]); c <= int(ranges[i+1]); c++ {
				s.set[c] = true
			}
		}
	}
	switch c := text[0]; {
	case c == 'd':
		has("09")
	case c == 'a':
		has("AZaz")
	case c == 'w':
		has("09AZaz")
	case c == 'x':
		has("09AFaf")
	case c == 's':
		has("\t\r  ")
	case c == 'S':
		var space step
		space.set = new([256]bool)
		_, _ = space.letter("s")
		for i := range s.set {
			s.set[i] = s.set[i] || !space.set[i]
		}
	case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
		return "", false
	default:
		s.set[c] = true
	}
	return text[1:], true
}

// found is where a pattern was found in a text.
type found struct {
	from, to int
	captures [mostCaptures][2]int
}

// in looks for the pattern, from a place in the text on.
func (p *pattern) in(text string, from int, f *found) bool {
	for ; from <= len(text); from++ {
		if to := p.at(text, from, 0, f); to >= 0 {
			f.from, f.to = from, to
			return true
		}
		if p.head {
			return false
		}
	}
	return false
}

// at returns where the steps from one on end, if they begin at a place in the text, and -1 if they do not fit.
func (p *pattern) at(text string, at, k int, f *found) int {
	for ; k < len(p.steps); k++ {
		s := &p.steps[k]
		least, most := 1, 1
		switch s.kind {
		case '(':
			f.captures[s.n][0] = at
			continue
		case ')':
			f.captures[s.n][1] = at
			continue
		case '*', '-':
			least, most = 0, len(text)
		case '+':
			most = len(text)
		case '?':
			least = 0
		}
		last := at
		for last < len(text) && last-at < most && s.set[text[last]] {
			last++
		}
		if last < at+least {
			return -1
		}
		if s.kind == 0 {
			at = last
			continue
		}
		if s.kind == '-' {
			for to := at; to <= last; to++ {
				if end := p.at(text, to, k+1, f); end >= 0 {
					return end
				}
			}
			return -1
		}
		for to := last; to >= at+least; to-- {
			if end := p.at(text, to, k+1, f); end >= 0 {
				return end
			}
		}
		return -1
	}
	if p.tail && at < len(text) {
		return -1
	}
	return at
}
