package query

import "fmt"

// language gives the texts of the report in English or in Chinese.
func language(zh bool) func(id string, args ...any) string {
	return func(id string, args ...any) string {
		text, ok := texts[id]
		if !ok {
			return id
		}
		if zh {
			return fmt.Sprintf(text[1], args...)
		}
		return fmt.Sprintf(text[0], args...)
	}
}

var texts = map[string][2]string{
	"1 overview":      {"1 Overview", "1 分析概要"},
	"2 evidence":      {"2 Evidence", "2 证据"},
	"3 conclusions":   {"3 Conclusions", "3 结论"},
	"4 advice":        {"4 Advice", "4 建议"},
	"5 paths":         {"5 Files", "5 交付件路径"},
	"severity high":   {"high", "严重"},
	"severity medium": {"medium", "中等"},
	"severity low":    {"low", "轻微"},
	"severity none":   {"no problem", "无问题"},

	"rows":           {"%d rows, %d of them MALLOC or FREE, over %s", "共 %d 行，其中申请/释放 %d 行，时间跨度 %s"},
	"peak":           {"process %s, device %s, %s: peak %s at %d ns", "进程 %s，设备 %s，%s：峰值 %s，时刻 %d ns"},
	"trend steady":   {"process %s, device %s, %s: steady, its floor went %s from the second quarter to the last", "进程 %s，设备 %s，%s：平稳，谷值由第二个四分之一到最后变化 %s"},
	"trend rising":   {"process %s, device %s, %s: rising, its floor went %s from the second quarter to the last", "进程 %s，设备 %s，%s：持续上升不回基线，谷值由第二个四分之一到最后变化 %s"},
	"owner":          {"process %s, device %s, %s: %s holds up to %s (%s)", "进程 %s，设备 %s，%s：%s 最多占用 %s（%s）"},
	"candidates":     {"process %s, device %s, %s: %d blocks, %s, were never really freed: %d ended at exit, %d unseen, %d have no FREE row", "进程 %s，设备 %s，%s：%d 块共 %s 无真实释放：退出补齐 %d，未观测到释放 %d，无 FREE 行 %d"},
	"from":           {"requested from %s", "申请来自 %s"},
	"floor":          {"the floor of use went %s, %s in each twentieth of the time, up in %d of the %d steps that changed it (algorithm A)", "谷值变化 %s，每二十分之一时段 %s，%d/%d 个变化步上升（算法 A）"},
	"floor of steps": {"by %d steps: the floor of use went %s, %s in each step, up in %d of the %d steps that changed it (algorithm A)", "按 %d 个 step：谷值变化 %s，每 step %s，%d/%d 个变化 step 上升（算法 A）"},
	"floor of parts": {"by %d steps, %d together: the floor of use went %s, %s in each step, up in %d of the %d parts that changed it (algorithm A)", "按 %d 个 step（每 %d 个合为一段）：谷值变化 %s，每 step %s，%d/%d 个变化段上升（算法 A）"},
	"reserved grows": {"what the pool reserves grew too (algorithm B)", "池预留也在增长（算法 B）"},
	"late":           {"%d candidates, %s; %s of it allocated after the first quarter of the time; %d lived to the end, %d were freed unseen (algorithm C)", "候选块 %d 个共 %s，其中 %s 申请于首个四分之一之后；%d 个存活到退出，%d 个未观测到释放（算法 C）"},
	"stack":          {"%s: %d candidates, %s (algorithm D)", "%s：候选 %d 个，%s（算法 D）"},
	"top owner":      {"%s: %s", "%s：%s"},
	"unused":         {"unused: %s on average, %s at the peak of use, %s at worst", "碎片率：均值 %s，用量峰值时 %s，最差 %s"},
	"grew":           {"at %d ns the pool grew by %s although %s of its %s were unused", "%d ns 时池扩容 %s，而当时 %s 未使用（共 %s）"},

	"oom others":       {"Memory ran out because others hold the card: %s of the %s in use are not this process's, which holds %s.", "显存不足的原因是其他进程占用：整卡已用中 %s（共 %s）不属于本进程，本进程仅占 %s。"},
	"oom leak":         {"Memory ran out after it had kept rising: the request of %s was only the last straw.", "显存持续上升后耗尽：%s 的申请只是最后一根稻草。"},
	"oom huge":         {"A single request was too large: %s where %s were free.", "单次申请过大：申请 %s，剩余 %s。"},
	"oom huge unknown": {"A single request was too large: %s, while this process holds %s; how much was free is not in the dump.", "单次申请过大：申请 %s，而本进程共占 %s；dump 中没有剩余量。"},
	"oom fragmented":   {"Memory ran out though enough was reserved: the request of %s fails while %s in the pool are unused, in pieces.", "池内碎片导致显存不足：申请 %s 失败时池内仍有 %s 未使用。"},
	"oom exhausted":    {"The card is simply full: a request of %s failed while this process holds %s.", "总量耗尽：申请 %s 失败时本进程已占 %s。"},
	"leak":             {"Process %s, device %s, %s: memory leaks, the floor of use went %s and does not come back.", "进程 %s，设备 %s，%s：存在显存泄漏，谷值变化 %s 且不回落。"},
	"fragmented":       {"Process %s, device %s, %s: the pool is fragmented, %s of it unused on average, and it grew all the same.", "进程 %s，设备 %s，%s：池碎片严重，平均 %s 未使用却仍在扩容。"},
	"hccl":             {"Process %s, device %s: communication (HCCL) buffers hold %s, %s of the peak; that is %s domains of 401 MiB.", "进程 %s，设备 %s：通信（HCCL）缓冲占用 %s，为峰值的 %s，相当于 %s 个 401 MiB 的通信域。"},
	"idle":             {"%s lie idle for long between two accesses, most of it %s.", "%s 在两次访问间长期闲置，主要是 %s。"},
	"resident":         {"No problem: process %s, device %s, %s filled up to a floor of %s early and stays there, as weights and caches do.", "无问题：进程 %s，设备 %s，%s 早期升至谷值 %s 后保持不变，属常驻（权重、缓存）。"},
	"healthy":          {"No problem found: use comes back to the same floor, nothing ran out, the pools are well used.", "未发现问题：用量回到同一基线，未发生显存不足，池利用率正常。"},
	"healthy unsure":   {"No problem found, but blocks that were never freed are not ruled out as a leak: see the evidence.", "未发现问题，但不能排除从未释放的块是泄漏：见证据。"},
	"judged by time":   {"growth was judged by equal parts of the time, in which a long start or end hides it: a card has fewer than 8 steps in the dump", "增长按时间等分判断，漫长的开头或结尾会将其掩盖：dump 中有的卡不足 8 个 step"},
	"thin":             {"Too little data for a conclusion: %d MALLOC and FREE rows.", "数据不足，无法下结论：仅 %d 条申请/释放记录。"},

	"advice others":        {"See who uses the card (npu-smi info) and move one of the processes to another card.", "用 npu-smi info 查看占用者，将其中一个进程移到其他卡。"},
	"advice leak":          {"Look at the code of the stacks above; collect again with --call-stack=python,c after the change and see whether `msmemscope dump trend` says steady.", "检查上述调用栈的代码；修改后用 --call-stack=python,c 复采，并用 `msmemscope dump trend` 验证是否平稳。"},
	"advice leak blocks":   {"See which blocks stayed: `msmemscope dump leak-candidates`; after the change see whether `msmemscope dump trend` says steady.", "用 `msmemscope dump leak-candidates` 查看留下的块；修改后用 `msmemscope dump trend` 验证是否平稳。"},
	"advice steps":         {"See when the blocks came: `msmemscope dump leak-candidates`. To be sure, mark 8 steps or more (mstx ranges `step start`, msmemscope.step()), or cut off start and end with --since and --until.", "用 `msmemscope dump leak-candidates` 查看这些块何时申请。要得出确定结论，请标记至少 8 个 step（mstx range `step start` 或 msmemscope.step()），或用 --since、--until 去掉开头和结尾。"},
	"advice huge":          {"Make the request smaller (batch size, sequence length, a temporary tensor) or split it.", "减小单次申请（batch、序列长度、临时张量）或分块处理。"},
	"advice fragmentation": {"Try PYTORCH_NPU_ALLOC_CONF=expandable_segments:True; or max_split_size_mb, which excludes it. Then compare `msmemscope dump fragmentation`.", "尝试 PYTORCH_NPU_ALLOC_CONF=expandable_segments:True（与 max_split_size_mb 互斥），再对比 `msmemscope dump fragmentation`。"},
	"advice exhausted":     {"See who holds it: `msmemscope dump at %d %s`, then with --pool PTA; offload, shard or recompute the largest.", "用 `msmemscope dump at %d %s`（再加 --pool PTA）查看大头，对其做卸载、切分或重计算。"},
	"advice hccl":          {"Fewer communication domains, or smaller buffers (HCCL_BUFFSIZE), if bandwidth allows.", "在带宽允许时减少通信域数量或减小缓冲（HCCL_BUFFSIZE）。"},
	"advice idle":          {"Offload it to the host between its uses, or shard it over the cards.", "在两次使用之间卸载到主机，或在多卡间切分。"},
	"advice collect":       {"Collect more: msmemscope --events=alloc,free,launch --call-stack=python --analysis=leaks,decompose bash train.sh, over several steps.", "请补采多个 Step：msmemscope --events=alloc,free,launch --call-stack=python --analysis=leaks,decompose bash train.sh。"},
	"no owners":            {"Not in the dump: owners. Collect with --analysis=decompose to break memory down by module.", "缺少归属（owner）：用 --analysis=decompose 采集可按模块拆解。"},
	"no stacks":            {"Not in the dump: call stacks. Collect with --call-stack=python,c to see where in the code.", "缺少调用栈：用 --call-stack=python,c 采集可定位到代码。"},
	"no card":              {"Not in the dump: the use of the whole card (device_used); whether other processes hold memory cannot be told.", "缺少整卡用量（device_used）：无法判断其他进程的占用。"},
}
