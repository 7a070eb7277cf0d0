package launch

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"memscope/internal/event"
)

// envVisible lists the cards that a program sees as its devices 0, 1, ...; the runtime and the agent read it.
const envVisible = "ASCEND_RT_VISIBLE_DEVICES"

// visibleCards is the notice about the list of visible cards (contract 7), none when there is no list.
func visibleCards() []string {
	list, set := os.LookupEnv(envVisible)
	switch {
	case !set:
		return nil
	case validCards(list):
		return []string{"[msmemscope] Info: Set ASCEND_RT_VISIBLE_DEVICES successfully!"}
	}
	return []string{fmt.Sprintf("[msmemscope] Warn: %s=%.80q is not used, device numbers are taken as card numbers; "+
		"a list of card numbers is accepted: 0,2", envVisible, list)}
}

// validCards says whether the agent takes the list (read_visible_devices in native/agent/device.c has the same rules).
func validCards(list string) bool {
	const most = 64
	cards := strings.Split(list, ",")
	for _, card := range cards {
		digits := strings.Trim(card, " \t")
		if digits == "" || strings.Trim(digits, "0123456789") != "" {
			return false
		}
		if n, err := strconv.ParseUint(digits, 10, 64); err != nil || n >= uint64(event.DeviceNone) {
			return false
		}
	}
	return len(cards) <= most
}
