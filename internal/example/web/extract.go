package web

import (
	"bytes"
	"net/url"
	"strings"

	"github.com/PuerkitoBio/goquery"
	"golang.org/x/net/html/charset"
)

const (
	maxLinks     = 2000 // per page; a page with more is a trap or a sitemap
	maxTitleSize = 300  // characters
)

// Extract reads the title and the links of an HTML page that was served at pageURL. Links are
// normalised, each once, in the order of the page. It leaves out links that cannot be crawled, such
// as mailto:, javascript: and broken addresses. It reads broken HTML as browsers do. Only elements
// that are nested hundreds of levels deep are an error.
func Extract(body []byte, contentType string, pageURL *url.URL) (title string, links []*url.URL, err error) {
	utf8, err := charset.NewReader(bytes.NewReader(body), contentType)
	if err != nil {
		// The charset is unknown, but the links can still be read.
		utf8 = bytes.NewReader(body)
	}
	doc, err := goquery.NewDocumentFromReader(utf8)
	if err != nil {
		return "", nil, err
	}

	base := pageURL
	if href, ok := doc.Find("base[href]").First().Attr("href"); ok {
		if u, err := Normalise(pageURL, href); err == nil {
			base = u
		}
	}
	seen := make(map[string]bool)
	doc.Find("a[href], area[href]").EachWithBreak(func(_ int, s *goquery.Selection) bool {
		href, _ := s.Attr("href")
		u, err := Normalise(base, href)
		if err == nil && !seen[u.String()] {
			seen[u.String()] = true
			links = append(links, u)
		}
		return len(links) < maxLinks
	})
	return tidyTitle(doc.Find("title").First().Text()), links, nil
}

func tidyTitle(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > maxTitleSize {
		s = string(r[:maxTitleSize])
	}
	return s
}
