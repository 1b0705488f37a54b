//go:build !linux

package reserve_test

import "errors"

func startRealRedis() (*realRedis, func(), error) {
	return nil, nil, errors.New("libfaketime is preloaded as Linux does it")
}
