// Package limits reads limits from a YAML file, and makes a limiter of package reserve for
// each. It checks the file as a whole, reports every error with its line, and can reload the
// file while the program runs.
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
//	flow          the flow of a call, such as its tenant: see below
//	weights       of the flows: see below
//	version       of the plans: a number that grows with each change of them
//	plans         limits for some keys: see below
//	kind          paced, warming up, quota, rolling or slots. The limit's text says it already;
//	              a kind that differs from it is an error
//	group         reserve.Config.Group: for limits that a call may need together, see
//	              [Set.All]
//	settles       reserve.Config.Settles: true or false
//	prefetch      reserve.Config.Prefetch: a duration
//	max-waiting   reserve.Config.MaxWaiting: how many calls
//	max-pause     reserve.Config.MaxPause: a duration
//	outage        reserve.Outage.Policy: local, wait, fail or open
//
// Missing fields are taken from the reserve.Config that was given to [Load]. These are errors:
// an unknown field, a field that is given twice, a name that two limits have, a file without
// limits. Anchors are allowed, aliases and tags are not, so a file is never larger
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
// # Flows
//
// A flow is a template, too. [Set.For] fills it with the same values, and the result is the
// flow of reserve.Limiter.Flow. Each flow with waiting calls gets its share of the limit,
// however many calls of others wait. Weights are listed by the name of the flow. The weight
// default applies to all other flows, and is 1 if it is missing:
//
//	limits:
//	  - name: account
//	    limit: 100/s
//	    flow: "{tenant}"
//	    weights: {acme: 3, free-tier: 0.5, default: 1}
//
// # Plans
//
// If some customers have other limits than the rest, give them plans, by name. A key has the plan
// that lists it. Otherwise it has the first plan of the file with a fitting template, in which a
// name in braces stands for any value. All other keys have the limit. Either all of them are
// slots, or none is:
//
//	limits:
//	  - name: api
//	    limit: 1/s
//	    key: "{customer}"
//	    version: 20261126
//	    plans:
//	      gold:  {limit: 50/s burst 20, keys: [acme, globex]}
//	      trial: {limit: 1/minute, keys: ["trial-{name}"]}
//
// Raise the version with each change of the limit and its plans; a reload without that is an error.
// The file with the highest version is in force for the whole fleet, also for processes that have
// not read it yet. Waiting calls follow within half a second. For plans in a database, use
// reserve.Config.LimitOf.
//
// # Reading the file again
//
// [Set.Reload] and [Set.Watch] apply a file as a whole or not at all: a file with errors
// changes nothing. A limit that means the same as before keeps its limiter: the same pointer.
// A changed limit gets another limiter with the same name in Redis. Its calls wait in the
// same queue, if the kind of the limit is the same. A removed name is unknown.
//
// A replaced or removed limiter is not closed, because that would end its waiting calls. Code
// that keeps it continues under its old limit. So ask the Set for each call or each job, and
// do not keep what it returns. In package worker, ask in Config.Need, and in package
// transport, in Config.Choose. Code that takes a limiter only once, such as
// inbound.Middleware, does not follow changes.
//
// The Set keeps each limiter that it has made until [Set.Close], and uses it again when the
// file says again what it said then. A limiter in which no call waits has no goroutine and
// no connection.
//
// The processes of a fleet read the file at different moments, and calls that waited then go
// on in the old limiter. While both are in use, the slower of the two limits is in force
// for all (reserve.Config.Limit). A limit of another kind is refused until the old one has had no
// call for up to 16.5 s, in any process: stop its calls for that time. A limit that was set for the whole fleet,
// with reserve.Limiter.SetLimit, stands above both.
//
// Replace the file by renaming another one onto it, as Kubernetes does with what it mounts.
// Watch applies a file only after it has read the same text twice, so it does not apply a
// half-written file. Reload applies what it finds.
package limits
