package queuemodel

import "strconv"

// heads returns what the reply says of each limit, after calls that may go were notified.
func (c *call) heads() []Head {
	for _, s := range c.loaded {
		c.wake(s)
	}
	return c.says()
}

// says returns what the reply says of each limit.
func (c *call) says() []Head {
	heads := make([]Head, len(c.limits))
	for j, s := range c.loaded {
		s.version++
		s.endShares(c.Now)
		s.seen, s.isNew = c.Now, false
		if s.head == "" {
			s.called = ""
		}
		text := strconv.FormatFloat(s.epoch, 'f', 0, 64) + " " + s.run + " " + s.kind + " " + number(s.a) + " " + number(s.b)
		if len(s.places) > 0 || len(s.bookings) > 0 || s.virtual > 0 || s.paused > 0 || s.setUntil > 0 || s.kind != "p" || s.settles || s.steppedAt > 0 || s.kept > 0 {
			text = "~" + text
		}
		heads[j] = Head{Version: s.version, Reach: c.reach(s), Text: text}
		if text == c.limits[j].Known {
			heads[j].Text = ""
		}
		if l := c.limits[j]; l.Plan && (s.ownA != l.A || s.ownB != l.B) { // it brought an older plan
			heads[j].Text = text + "@" + s.own()
		}
		if s.probe > 0 {
			heads[j].Text = text + "@stop hard stop " + strconv.FormatFloat(s.probe, 'f', 0, 64) + " told so"
		}
	}
	return heads
}

func number(x float64) string { return strconv.FormatFloat(x, 'g', 17, 64) }
