# The model of the ring protocol. Included by the top Makefile; also works alone: make -f native/agent/model/model.mk model
.PHONY: model
model:
	@command -v spin >/dev/null || { echo "model: spin is missing (Debian: apt-get install spin)" >&2; exit 1; }
	native/agent/model/check.sh build/model
