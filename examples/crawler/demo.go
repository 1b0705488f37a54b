package main

import (
	"fmt"
	"html"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

const (
	demoHosts   = 3
	demoEntries = 6 // entry pages, two on each host
	demoBranch  = 5 // new pages that each page links to

	// The Crawl-delay of the last host is this many times the interval of the per-host limit.
	demoDelayFactor = 1.2
)

// demoWeb is a generated site of n pages. It is the same for the same n and addresses. Page i is on
// host i mod 3. Page i links to the pages 6+5i to 6+5i+4, so all pages can be reached, and all
// hosts are found at the same pace.
type demoWeb struct {
	n     int
	bases []string // "http://127.0.0.1:port"
}

// newDemo returns the demo site for hosts at addrs, ready to be served.
func newDemo(n int, addrs []string, perHost float64) (*site, []hostSpec) {
	web := &demoWeb{n: n}
	for _, a := range addrs {
		web.bases = append(web.bases, "http://"+a)
	}
	s := &site{pages: n}
	for i := range demoEntries {
		s.entries = append(s.entries, web.address(i))
	}
	specs := make([]hostSpec, demoHosts)
	for host := range specs {
		robotsTxt := "User-agent: *\nDisallow: /private/\n"
		rate := perHost
		if host == demoHosts-1 {
			rate = perHost / demoDelayFactor
			robotsTxt += "Crawl-delay: " + strconv.FormatFloat(1/rate, 'f', 6, 64) + "\n"
		}
		specs[host] = hostSpec{handler: web.handler(host, robotsTxt, s), perSecond: rate}
	}
	return s, specs
}

// path returns the path of page i on its host. Some pages differ only in their query.
func (w *demoWeb) path(i int) string {
	switch {
	case i%10 == 9:
		return fmt.Sprintf("/notes?id=%d", i)
	case i < demoHosts:
		return "/"
	default:
		return fmt.Sprintf("/articles/%d.html", i)
	}
}

func (w *demoWeb) address(i int) string { return w.bases[i%demoHosts] + w.path(i) }

// neighbour returns another page on the host of page i.
func (w *demoWeb) neighbour(i int) int {
	if i+demoHosts < w.n {
		return i + demoHosts
	}
	return i % demoHosts
}

func (w *demoWeb) handler(host int, robotsTxt string, s *site) http.Handler {
	byPath := make(map[string]int)
	for i := host; i < w.n; i += demoHosts {
		byPath[w.path(i)] = i
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/robots.txt", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprint(rw, robotsTxt)
	})
	mux.HandleFunc("/private/", func(rw http.ResponseWriter, _ *http.Request) {
		s.violations.Add(1)
		fmt.Fprint(rw, "<title>private</title>robots.txt forbids this")
	})
	mux.HandleFunc("/moved/{id}", func(rw http.ResponseWriter, r *http.Request) {
		id, err := strconv.Atoi(r.PathValue("id"))
		if err != nil || id < 0 || id >= w.n {
			http.NotFound(rw, r)
			return
		}
		http.Redirect(rw, r, w.address(id), http.StatusMovedPermanently)
	})
	mux.HandleFunc("/figure.png", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "image/png")
		_, _ = rw.Write([]byte("\x89PNG\r\n\x1a\n"))
	})
	mux.HandleFunc("/", func(rw http.ResponseWriter, r *http.Request) {
		i, ok := byPath[r.URL.RequestURI()]
		if !ok {
			http.NotFound(rw, r)
			return
		}
		rw.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(rw, w.page(i))
	})
	return mux
}

// page writes page i with the kinds of links that real pages have, in HTML that is not always
// correct.
func (w *demoWeb) page(i int) string {
	random := rand.New(rand.NewPCG(uint64(i), uint64(w.n)))
	title := demoTitle(random)
	var links []string
	for child := demoEntries + demoBranch*i; child < min(demoEntries+demoBranch*(i+1), w.n); child++ {
		links = append(links, w.address(child))
	}
	for range 3 {
		links = append(links, w.address(random.IntN(w.n)))
	}
	links = append(links,
		".."+w.path(w.neighbour(i))+"#top", // relative, with a fragment
		"mailto:editor@example.com", "javascript:void(0)", "/private/"+strconv.Itoa(i%5))
	if i%50 == 7 {
		links = append(links, "/moved/"+strconv.Itoa(random.IntN(w.n)))
	}
	if i < demoHosts {
		links = append(links, "/figure.png")
	}
	random.Shuffle(len(links), func(a, b int) { links[a], links[b] = links[b], links[a] })

	var b strings.Builder
	fmt.Fprintf(&b, "<!doctype html>\n<html><head><title>%s</title></head>\n<body><h1>%[1]s</h1>\n", html.EscapeString(title))
	for n, link := range links {
		fmt.Fprintf(&b, "<p>%s <a href=\"%s\">%s</a>.", demoSentence(random), html.EscapeString(link), demoTitle(random))
		if n%2 == 0 {
			b.WriteString("</p>\n") // every other paragraph is left open
		}
	}
	if i%7 != 3 {
		b.WriteString("</body></html>\n")
	}
	return b.String()
}

var demoWords = strings.Fields("queue ticket turn limit rate burst line worker call peak valve river crane harbour timetable " +
	"signal bridge lantern orchard compass ledger mill anchor kettle meadow clock engine gate ferry mountain")

func demoTitle(random *rand.Rand) string {
	words := slices.Clone(demoWords)
	random.Shuffle(len(words), func(a, b int) { words[a], words[b] = words[b], words[a] })
	return "The " + words[0] + " & the " + words[1]
}

func demoSentence(random *rand.Rand) string {
	words := make([]string, 12)
	for i := range words {
		words[i] = demoWords[random.IntN(len(demoWords))]
	}
	return strings.Join(words, " ")
}
