// Package bodies reads what the bodies of responses say: the tokens that a call has used, whether a
// stream is complete, and why a call was refused. It is to bodies what package headers is to
// headers.
//
// A [Scanner] is given the bytes of a body as they come, in any parts: server-sent events, one
// JSON document, or an event stream of AWS. It keeps no more than one line of 64 KiB. [Usage] is the same for all providers.
//
//	s := bodies.NewScanner(response.Header)
//	_, err := io.Copy(io.MultiWriter(client, s), response.Body)
//	s.End(err == nil)
//	fmt.Println(s.Usage().Output)
//
// [Classify] says what to do after a refusal, by the rules of an [API]. It knows Anthropic, OpenAI
// and compatible APIs, Azure, Gemini, Bedrock, and the GraphQL APIs of Shopify and GitHub.
package bodies
