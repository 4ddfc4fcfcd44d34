package browser

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/docpriority/priority/internal/redistest"
)

// Tab is a page in the browser.
type Tab struct {
	b       *Browser
	session string

	mu       sync.Mutex // guards all below
	loads    int
	problems []string
}

// Look says how to look at a page.
type Look struct {
	Width, Height int
	Dark, Phone   bool
	Print         bool // as it is printed
}

// Open opens a new tab.
func (b *Browser) Open(look Look) *Tab {
	b.t.Helper()
	target := result[string](b.t, b.call("", "Target.createTarget", map[string]any{"url": "about:blank"}), "targetId")
	attached := b.call("", "Target.attachToTarget", map[string]any{"targetId": target, "flatten": true})
	tab := &Tab{b: b, session: result[string](b.t, attached, "sessionId")}
	b.mu.Lock()
	b.tabs[tab.session] = tab
	b.mu.Unlock()
	for _, domain := range []string{"Page.enable", "Runtime.enable", "Log.enable", "Network.enable"} {
		tab.call(domain, nil)
	}
	tab.See(look)
	return tab
}

// See changes the Look.
func (tab *Tab) See(look Look) {
	tab.b.t.Helper()
	scheme := "light"
	if look.Dark {
		scheme = "dark"
	}
	tab.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": look.Width, "height": look.Height, "deviceScaleFactor": 1, "mobile": look.Phone})
	media := ""
	if look.Print {
		media = "print"
	}
	tab.call("Emulation.setEmulatedMedia", map[string]any{"media": media, "features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}})
}

// Scripts says whether pages that are opened from now on may run scripts.
func (tab *Tab) Scripts(allowed bool) {
	tab.b.t.Helper()
	tab.call("Emulation.setScriptExecutionDisabled", map[string]any{"value": !allowed})
}

// Headers are sent with every request from now on.
func (tab *Tab) Headers(headers map[string]string) {
	tab.b.t.Helper()
	tab.call("Network.setExtraHTTPHeaders", map[string]any{"headers": headers})
}

// Go opens an address, and waits until it is loaded.
func (tab *Tab) Go(address string) {
	tab.b.t.Helper()
	tab.Loads(address, func() { tab.call("Page.navigate", map[string]any{"url": address}) })
}

// Loads calls do and waits until it has loaded another page.
func (tab *Tab) Loads(what string, do func()) {
	tab.b.t.Helper()
	before := tab.loaded()
	do()
	redistest.Await(tab.b.t, what+" is loaded", func() bool { return tab.loaded() > before })
}

// Eval evaluates an expression of JavaScript, waits for its promise, and reads its
// value. Nil: the value is not read.
func (tab *Tab) Eval(expression string, value any) {
	tab.b.t.Helper()
	got := tab.call("Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true})
	var answer struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		Exception json.RawMessage `json:"exceptionDetails"`
	}
	err := json.Unmarshal(got, &answer)
	if err == nil && answer.Exception != nil {
		err = fmt.Errorf("%.1000s", answer.Exception)
	}
	if err == nil && value != nil {
		err = json.Unmarshal(answer.Result.Value, value)
	}
	if err != nil {
		tab.b.t.Fatalf("chromium: %.200s: %v", expression, err)
	}
}

// Text returns the value of an expression that is a text.
func (tab *Tab) Text(expression string) (text string) {
	tab.b.t.Helper()
	tab.Eval(expression, &text)
	return text
}

// Press presses a key, and types its text if it has one.
func (tab *Tab) Press(key, text string) {
	tab.b.t.Helper()
	codes := map[string]int{"Tab": 9, "Enter": 13, " ": 32}
	press := map[string]any{"type": "keyDown", "key": key, "text": text, "windowsVirtualKeyCode": codes[key]}
	tab.call("Input.dispatchKeyEvent", press)
	tab.call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key, "windowsVirtualKeyCode": codes[key]})
}

// Type types a text where the focus is.
func (tab *Tab) Type(text string) {
	tab.b.t.Helper()
	tab.call("Input.insertText", map[string]any{"text": text})
}

// Problems returns what went wrong on the pages since its last call: exceptions, and
// messages on the console, such as a violation of the page's policy.
func (tab *Tab) Problems() []string {
	tab.call("Runtime.evaluate", map[string]any{"expression": "0"}) // then all earlier events have arrived
	tab.mu.Lock()
	defer tab.mu.Unlock()
	problems := tab.problems
	tab.problems = nil
	return problems
}

func (tab *Tab) call(method string, params any) json.RawMessage {
	tab.b.t.Helper()
	return tab.b.call(tab.session, method, params)
}

func (tab *Tab) loaded() int {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	return tab.loads
}

// heard handles an event of the tab.
func (tab *Tab) heard(method string, params json.RawMessage) {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	switch method {
	case "Page.loadEventFired":
		tab.loads++
	case "Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled":
		tab.problems = append(tab.problems, fmt.Sprintf("%.600s", params))
	}
}
