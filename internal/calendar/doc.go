// Package calendar finds the windows in which a quota such as "5,000 per day"
// is counted: the calendar minutes, hours, days, weeks and months of a time zone.
//
// Everything here is arithmetic: time is an argument, and nothing waits or reads a clock.
//
// # Where clocks are set
//
// The windows of a unit tile time: each moment belongs to one window, and the next window begins where one
// ends, whatever the clocks of the zone do. They follow one rule: a window begins when the local clock
// first reaches its beginning. A clock that is set back does not bring back a window that has ended.
//
//   - A day has 23 or 25 hours where summer time begins or ends, and 24 otherwise.
//   - A day whose midnight is skipped begins when the clock is set, at 01:00.
//   - A day that is skipped as a whole, as 30 December 2011 was in Apia, has no
//     window; the days around it touch.
//   - An hour that the clock shows twice is one window of two hours. An API that counts
//     it as one window sees the quota kept; an API that counts two sees half of it used.
//   - Where the clock is set back across midnight, the new day goes on: the hour of
//     the old one that is shown again belongs to it.
//
// Minutes are minutes of UTC in every zone: an hour that is shown twice has sixty new minutes. Offsets have
// been whole minutes since 1972, so local clocks show the same.
//
// # Where the zones come from
//
// A *time.Location needs the time zone database, which time.LoadLocation finds on
// the machine or in the Go installation. This package embeds none: a program that
// runs in a bare container imports time/tzdata, which adds about 450 KB to it.
// Machines that share a quota should have the same edition of it.
package calendar
