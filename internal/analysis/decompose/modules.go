package decompose

// modules are the names of the driver's modules, by id (contract, appendix A; the last one is spelt like that).
var modules = [...]string{
	"SLOG", "IDEDD", "IDEDH", "HCCL", "FMK", "HIAIENGINE", "DVPP", "RUNTIME", "CCE", "HDC", "DRV", "MDCFUSION",
	"MDCLOCATION", "MDCPERCEPTION", "MDCFSM", "MDCCOMMON", "MDCMONITOR", "MDCBSWP", "MDCDEFAULT", "MDCSC", "MDCPNC",
	"MLL", "DEVMM", "KERNEL", "LIBMEDIA", "CCECPU", "ASCENDDK", "ROS", "HCCP", "ROCE", "TEFUSION", "PROFILING", "DP",
	"APP", "TS", "TSDUMP", "AICPU", "LP", "TDT", "FE", "MD", "MB", "ME", "IMU", "IMP", "GE", "MDCFUSA", "CAMERA",
	"ASCENDCL", "TEEOS", "ISP", "SIS", "HSM", "DSS", "PROCMGR", "BBOX", "AIVECTOR", "TBE", "FV", "MDCMAP", "TUNE",
	"HSS", "FFTS", "OP", "UDF", "HICAID", "TSYNC", "AUDIO", "TPRT", "ASCENDCKERNEL", "ASYS", "ATRACE", "RTC",
	"SYSMONITOR", "AML", "INVLID_MOUDLE_ID",
}

var canns = func() (out [len(modules)]string) {
	for i, name := range modules {
		out[i] = "CANN@" + name
	}
	return out
}()

// cann is the framework of driver memory.
func cann(module int16) string {
	if module < 0 || int(module) >= len(canns) {
		return "CANN@UNKNOWN"
	}
	return canns[module]
}
