package fleetaws

import (
	"context"
	"io"
	"iter"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/fleetpace/fleetpace/llm"
)

// Turns lets the requests of a client, or of one call, take their turns at a Set: see the package. The last option counts.
func Turns(set *llm.Set) func(*bedrockruntime.Options) {
	t := turns{set.Client(&http.Client{Transport: handover{}}).Transport}
	return func(o *bedrockruntime.Options) {
		o.APIOptions = append(slices.Clip(o.APIOptions), func(stack *middleware.Stack) error {
			if _, err := stack.Finalize.Swap(t.ID(), t); err == nil {
				return nil // the receiver is there, too
			}
			if err := stack.Finalize.Insert(t, "Retry", middleware.After); err != nil {
				return err
			}
			return stack.Deserialize.Add(receiver{}, middleware.After)
		})
	}
}

// attempt is a request of which the Set and the SDK each do a part. The Set's part is a coroutine: it waits for the
// turn, then the SDK signs and sends the request, and then the Set takes in the response. The SDK decodes it in the end.
type attempt struct {
	url      *url.URL
	send     func(context.Context) bool             // called by the Set when the turn has come; false: nothing was sent
	resume   func() (turn context.Context, ok bool) // called by the SDK: runs the Set's part until it sends, or ends
	turn     context.Context                        // of the attempt, with its trace
	response *http.Response
	err      error
}

type attemptKey struct{}

func attemptOf(ctx context.Context) *attempt {
	a, _ := ctx.Value(attemptKey{}).(*attempt)
	return a
}

// handover sends the requests of the Set's client: it lets the SDK do that.
type handover struct{}

// unsent is why the Set gets no response. By its method Unsent, package transport knows that the request costs nothing.
type unsent struct{}

func (unsent) Error() string { return "fleetaws: the SDK has not sent the request" }

func (unsent) Unsent() {}

func (handover) RoundTrip(r *http.Request) (*http.Response, error) {
	a := attemptOf(r.Context())
	if !a.send(r.Context()) {
		return nil, unsent{}
	}
	return a.response, a.err
}

// turns waits for the turn of each attempt, before the SDK gets its credentials and signs it.
type turns struct{ client http.RoundTripper }

func (turns) ID() string { return "FleetpaceTurn" }

func (t turns) HandleFinalize(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (out middleware.FinalizeOutput, metadata middleware.Metadata, err error) {
	request, ok := in.Request.(*smithyhttp.Request)
	if !ok {
		return next.HandleFinalize(ctx, in)
	}
	u := *request.URL
	a := &attempt{url: &u}
	unsigned := (&http.Request{
		Method: request.Method, URL: &u, Header: http.Header{"Content-Type": request.Header["Content-Type"]}, Body: http.NoBody, ContentLength: request.ContentLength,
	}).WithContext(context.WithValue(ctx, attemptKey{}, a))
	if request.IsStreamSeekable() {
		unsigned.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(request.GetStream()), request.RewindStream() }
	}
	resume, stop := iter.Pull(func(send func(context.Context) bool) {
		a.send = send
		a.response, a.err = t.client.RoundTrip(unsigned) //nolint:bodyclose // the SDK does
	})
	defer stop()
	a.resume = resume
	turn, ok := resume()
	if !ok {
		return out, metadata, final{a.err}
	}
	if request.IsStreamSeekable() {
		if err := request.RewindStream(); err != nil {
			return out, metadata, err
		}
	}
	a.turn = turn
	return next.HandleFinalize(traced{turn, ctx}, in) // without the Set's trace: the SDK may send requests for credentials
}

// traced is a context with the trace of another one.
type traced struct {
	context.Context
	by context.Context
}

func (t traced) Value(key any) any {
	by := t.by.Value(key)
	if _, ok := by.(*httptrace.ClientTrace); ok {
		return by
	}
	v := t.Context.Value(key)
	if _, ok := v.(*httptrace.ClientTrace); ok {
		return nil
	}
	return v
}

// receiver gives the response to the Set before anything else reads it.
type receiver struct{}

func (receiver) ID() string { return "FleetpaceResponse" }

func (receiver) HandleDeserialize(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (out middleware.DeserializeOutput, metadata middleware.Metadata, err error) {
	a := attemptOf(ctx)
	if a != nil {
		ctx = traced{ctx, a.turn}
	}
	out, metadata, err = next.HandleDeserialize(ctx, in)
	response, ok := out.RawResponse.(*smithyhttp.Response)
	if a == nil || !ok {
		return out, metadata, err
	}
	if a.err = err; err == nil {
		a.response = response.Response
	}
	if response.Request != nil {
		a.url.Host = response.Request.URL.Host // for the reason of a pause
	}
	a.resume()
	if a.err == nil {
		response.Response = a.response
	}
	return out, metadata, a.err
}

// final is why a request has not got its turn. The SDK does not repeat it.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

func (final) RetryableError() bool { return false }
