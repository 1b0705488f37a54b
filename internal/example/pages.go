package example

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
	PageHosts   = 3
	pageEntries = 6 // entry pages, two on each host
	pageBranch  = 5 // new pages that each page links to

	// The Crawl-delay of the last host is this many times the interval of the per-host limit.
	pageDelayFactor = 1.2
)

// pageWeb is a generated site of n pages. It is the same for the same n and addresses. Page i is on
// host i mod 3. Page i links to the pages 6+5i to 6+5i+4, so all pages can be reached, and all
// hosts are found at the same pace.
type pageWeb struct {
	n     int
	bases []string // "http://127.0.0.1:port"
}

// NewPages returns the demo site for hosts at addrs, ready to be served.
func NewPages(n int, addrs []string, perHost float64) (*Site, []Host) {
	web := &pageWeb{n: n}
	for _, a := range addrs {
		web.bases = append(web.bases, "http://"+a)
	}
	s := &Site{Pages: n}
	for i := range pageEntries {
		s.Entries = append(s.Entries, web.address(i))
	}
	specs := make([]Host, PageHosts)
	for host := range specs {
		robotsTxt := "User-agent: *\nDisallow: /private/\n"
		rate := perHost
		if host == PageHosts-1 {
			rate = perHost / pageDelayFactor
			robotsTxt += "Crawl-delay: " + strconv.FormatFloat(1/rate, 'f', 6, 64) + "\n"
		}
		specs[host] = Host{Handler: web.handler(host, robotsTxt, s), PerSecond: rate}
	}
	return s, specs
}

// path returns the path of page i on its host. Some pages differ only in their query.
func (w *pageWeb) path(i int) string {
	switch {
	case i%10 == 9:
		return fmt.Sprintf("/notes?id=%d", i)
	case i < PageHosts:
		return "/"
	default:
		return fmt.Sprintf("/articles/%d.html", i)
	}
}

func (w *pageWeb) address(i int) string { return w.bases[i%PageHosts] + w.path(i) }

// neighbour returns another page on the host of page i.
func (w *pageWeb) neighbour(i int) int {
	if i+PageHosts < w.n {
		return i + PageHosts
	}
	return i % PageHosts
}

func (w *pageWeb) handler(host int, robotsTxt string, s *Site) http.Handler {
	byPath := make(map[string]int)
	for i := host; i < w.n; i += PageHosts {
		byPath[w.path(i)] = i
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/robots.txt", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprint(rw, robotsTxt)
	})
	mux.HandleFunc("/private/", func(rw http.ResponseWriter, _ *http.Request) {
		s.Violations.Add(1)
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
func (w *pageWeb) page(i int) string {
	random := rand.New(rand.NewPCG(uint64(i), uint64(w.n)))
	title := pageTitle(random)
	var links []string
	for child := pageEntries + pageBranch*i; child < min(pageEntries+pageBranch*(i+1), w.n); child++ {
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
	if i < PageHosts {
		links = append(links, "/figure.png")
	}
	random.Shuffle(len(links), func(a, b int) { links[a], links[b] = links[b], links[a] })

	var b strings.Builder
	fmt.Fprintf(&b, "<!doctype html>\n<html><head><title>%s</title></head>\n<body><h1>%[1]s</h1>\n", html.EscapeString(title))
	for n, link := range links {
		fmt.Fprintf(&b, "<p>%s <a href=\"%s\">%s</a>.", pageSentence(random), html.EscapeString(link), pageTitle(random))
		if n%2 == 0 {
			b.WriteString("</p>\n") // every other paragraph is left open
		}
	}
	if i%7 != 3 {
		b.WriteString("</body></html>\n")
	}
	return b.String()
}

var pageWords = strings.Fields("queue ticket turn limit rate burst line worker call peak valve river crane harbour timetable " +
	"signal bridge lantern orchard compass ledger mill anchor kettle meadow clock engine gate ferry mountain")

func pageTitle(random *rand.Rand) string {
	words := slices.Clone(pageWords)
	random.Shuffle(len(words), func(a, b int) { words[a], words[b] = words[b], words[a] })
	return "The " + words[0] + " & the " + words[1]
}

func pageSentence(random *rand.Rand) string {
	words := make([]string, 12)
	for i := range words {
		words[i] = pageWords[random.IntN(len(pageWords))]
	}
	return strings.Join(words, " ")
}
