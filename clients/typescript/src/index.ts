export { Fleetpace, type LimitInfo, type State } from "./client.js";
export { type Options } from "./connection.js";
export { Conflict, Exhausted, FleetpaceError, InvalidRequest, TooLate, Unauthorized, Unavailable, UnknownLimit } from "./errors.js";
export { type Allowed, type AllowOptions, type Api, type AskOptions, type Later, type Limit, type Limiter, type Refusal, type Stop, type WaitOptions, type Whose } from "./limiter.js";
export { Turn } from "./turn.js";
