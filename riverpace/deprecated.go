package riverpace

// Turn is the earlier name of Need.
//
// Deprecated: use [Need].
type Turn = Need
