// Renders a Helm chart with Go's template engine and those functions of Helm that the chart uses, for machines without helm.
// Usage: render CHART < {"Values": …, "Chart": …, "Release": …}; prints {"template": "text", …}.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"text/template"
)

func isEmpty(value any) bool {
	return value == nil || reflect.ValueOf(value).IsZero()
}

func main() {
	var data map[string]any
	decoder := json.NewDecoder(os.Stdin)
	// As Helm has them: 3 is printed as 3.
	decoder.UseNumber()
	if err := decoder.Decode(&data); err != nil {
		fail(err)
	}
	root := template.New("chart").Option("missingkey=error")
	indent := func(spaces int, text string) string {
		pad := strings.Repeat(" ", spaces)
		return pad + strings.ReplaceAll(text, "\n", "\n"+pad)
	}
	root.Funcs(template.FuncMap{
		"include": func(name string, data any) (string, error) {
			var out bytes.Buffer
			err := root.ExecuteTemplate(&out, name, data)
			return out.String(), err
		},
		"default": func(fallback, value any) any {
			if isEmpty(value) {
				return fallback
			}
			return value
		},
		"required": func(why string, value any) (any, error) {
			if isEmpty(value) {
				return nil, fmt.Errorf("%s", why)
			}
			return value, nil
		},
		"quote":   func(value any) string { return strconv.Quote(fmt.Sprint(value)) },
		"nindent": func(spaces int, text string) string { return "\n" + indent(spaces, text) },
		// JSON is YAML.
		"toYaml": func(value any) (string, error) {
			text, err := json.Marshal(value)
			return string(text), err
		},
		"sha256sum": func(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) },
	})
	files, err := filepath.Glob(filepath.Join(os.Args[1], "templates", "*"))
	if err != nil {
		fail(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			fail(err)
		}
		if _, err := root.New(filepath.Base(file)).Parse(string(text)); err != nil {
			fail(err)
		}
	}
	rendered := map[string]string{}
	for _, file := range files {
		name := filepath.Base(file)
		if strings.HasPrefix(name, "_") {
			continue
		}
		var out bytes.Buffer
		if err := root.ExecuteTemplate(&out, name, data); err != nil {
			fail(err)
		}
		rendered[name] = out.String()
	}
	if err := json.NewEncoder(os.Stdout).Encode(rendered); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
