package output

import (
	"bytes"
	"encoding/json"
	"math"
	"path/filepath"

	"memscope/internal/config"
)

// configName is the file that tells readers with which options a dump was made.
const configName = "config.json"

// configFile is config.json (contract 2, abi.md 0.4): keys in ascending byte order, bit values of contract 1.6.
type configFile struct {
	SelectedStepList struct {
		StepCount  int       `json:"stepCount"`
		StepIDList [5]uint32 `json:"stepIdList"`
	} `json:"SelectedStepList"`
	AnalysisType   config.Analyses `json:"analysisType"`
	BlockThreshold uint64          `json:"blockSizeThreshold"`
	CStackDepth    int             `json:"cStackDepth"`
	CollectAllNpu  bool            `json:"collectAllNpu"`
	CollectCPU     bool            `json:"collectCpu"`
	CollectMode    config.Mode     `json:"collectMode"`
	DataFormat     config.Format   `json:"dataFormat"`
	DumpEventType  config.Events   `json:"dumpEventType"`
	EnableCStack   bool            `json:"enableCStack"`
	EnableCompare  bool            `json:"enableCompare"`
	EnablePyStack  bool            `json:"enablePyStack"`
	EventType      config.Events   `json:"eventType"`
	HostLeakMode   int             `json:"hostLeakMode"` // summary 0, event 1
	IsEffective    bool            `json:"isEffective"`
	LevelType      config.Levels   `json:"levelType"`
	LogLevel       config.LogLevel `json:"logLevel"`
	NPUSlots       uint32          `json:"npuSlots"`
	OOMTopK        int             `json:"oomTopK"`
	OutputDir      string          `json:"outputDir"`
	PyStackDepth   int             `json:"pyStackDepth"`
	SampleRate     uint32          `json:"sampleRate"`
	WatchConfig    struct {
		End         string `json:"end"`
		FullContent bool   `json:"fullContent"`
		IsWatched   bool   `json:"isWatched"`
		OutputID    uint32 `json:"outputId"` // the largest number while unset (contract 1.7)
		Start       string `json:"start"`
	} `json:"watchConfig"`
}

// ConfigJSON is the text of config.json for c, without a newline at its end.
func ConfigJSON(c *config.Config) []byte {
	f := configFile{
		AnalysisType: c.Analysis, CStackDepth: c.CStackDepth, CollectAllNpu: c.AllNPU, CollectCPU: c.CPU,
		CollectMode: c.Mode, DataFormat: c.Format, DumpEventType: c.DumpEvents, EnableCStack: c.CStack,
		EnablePyStack: c.PyStack, EventType: c.Events, IsEffective: true, LevelType: c.Level, LogLevel: c.LogLevel,
		NPUSlots: c.NPUSlots, OOMTopK: c.OOMTopK, OutputDir: c.OutputPath, PyStackDepth: c.PyStackDepth,
	}
	f.BlockThreshold, f.SampleRate = c.BlockThreshold, c.SampleRate
	if c.HostLeakDetail {
		f.HostLeakMode = 1
	}
	f.SelectedStepList.StepCount = copy(f.SelectedStepList.StepIDList[:], c.Steps)
	w := &f.WatchConfig
	w.IsWatched, w.Start, w.End, w.FullContent, w.OutputID = c.Watch.End != "", c.Watch.Start, c.Watch.End, c.Watch.Full, math.MaxUint32
	if w.IsWatched {
		w.OutputID = c.Watch.Output
	}

	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "    ")
	if err := enc.Encode(&f); err != nil {
		panic(err) // numbers, booleans and strings always encode
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

// WriteConfig writes config.json into the project directory, in one step also over an older one.
func (p *Project) WriteConfig(c *config.Config) error {
	const temp = configName + ".new"
	p.Root.Remove(temp)
	f, err := createFile(p.Root, temp)
	if err != nil {
		return err
	}
	_, err = f.Write(ConfigJSON(c))
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = p.Root.Rename(temp, configName)
	}
	if err != nil {
		p.Root.Remove(temp)
		return err
	}
	p.notice("[msmemscope] Info: Config into file " + filepath.Join(p.Path, configName))
	return nil
}
