package hostheap

import "math"

// bucketBounds are the upper bounds of the size buckets, exclusive (contract 6.2).
var bucketBounds = [Buckets]uint64{256, 1 << 10, 4 << 10, 32 << 10, 256 << 10, 1 << 20, math.MaxUint64}

// BucketNames are the labels of the size buckets.
var BucketNames = [Buckets]string{"0~256B", "256B~1kB", "1kB~4kB", "4kB~32kB", "32kB~256kB", "256kB~1MB", ">=1MB"}

// Bucket is the size bucket that a size belongs to.
func Bucket(size uint64) int {
	for i, bound := range bucketBounds {
		if size < bound {
			return i
		}
	}
	return Buckets - 1
}
