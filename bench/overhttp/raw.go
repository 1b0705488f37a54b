package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// raw is a caller that costs as little as it can: it sends the same bytes over one connection,
// and reads no more of an answer than its status and its length. A client of net/http takes more
// time than a server.
type raw struct {
	conn    net.Conn
	reader  *bufio.Reader
	request []byte
}

func dial(ctx context.Context, address, body string) (*raw, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	request := fmt.Sprintf("POST /v1/wait HTTP/1.1\r\nHost: fleetpace\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	return &raw{conn, bufio.NewReader(conn), []byte(request)}, nil
}

func (r *raw) ask() error {
	if _, err := r.conn.Write(r.request); err != nil {
		return err
	}
	length := 0
	for first := true; ; first = false {
		line, err := r.reader.ReadSlice('\n')
		if err != nil {
			return err
		}
		text := strings.TrimRight(string(line), "\r\n")
		switch rest, ok := strings.CutPrefix(text, "Content-Length: "); {
		case first && !strings.HasPrefix(text, "HTTP/1.1 200"):
			return fmt.Errorf("the answer is %q", text)
		case ok:
			if length, err = strconv.Atoi(rest); err != nil {
				return err
			}
		case text == "":
			_, err = r.reader.Discard(length)
			return err
		}
	}
}
