// Package deploy holds what operators need: a dashboard for Grafana, alert rules for Prometheus
// with a page each in runbooks/, and a compose file that shows them with the crawler. Its tests
// run all of it against a real Prometheus.
package deploy
