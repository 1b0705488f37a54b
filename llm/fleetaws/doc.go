// Package fleetaws lets clients of the AWS SDK wait for their turns at the limits of Amazon Bedrock, as package llm does
// for other clients. It is a module of its own, so that nobody else downloads the SDK.
//
//	set, err := llm.New(client, llm.Config{Account: "aws/prod", Preset: llm.Bedrock("claude", 2_000_000)})
//	runtime := bedrockruntime.NewFromConfig(cfg, fleetaws.Turns(set))
//	answer, err := runtime.ConverseStream(ctx, input) // or Converse, InvokeModel, InvokeModelWithResponseStream
//
// Each attempt, also one of the SDK's retries, waits for a turn before it is signed, so no signature ends in the queue.
// The costs are settled by the tokens that responses state, also in streams, of which no byte changes or waits.
// Refusals pause or stop the limits. While they are stopped, calls fail with [llm.ErrExhausted], and are not repeated.
// [llm.Config.Estimate] gets the method, the URL and the Content-Type of a request, and its body by GetBody.
//
// A Set is one model. For another model, give Turns of its Set to the call: runtime.Converse(ctx, input, fleetaws.Turns(other)).
package fleetaws
