// Renders a Helm chart as `helm template` does, with Go's text/template, the functions of sprig and those that Helm adds:
// JSON on standard input, {"chart": folder, "release": {…}, "values": {…}, "set": {…}, "cluster": {"Secret/name": {…}}}, and
// JSON on standard output, from the name of a template to its text. Built with the packages of Debian alone.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"gopkg.in/yaml.v3"
)

type object = map[string]interface{}

type order struct {
	Chart   string
	Release object
	Values  object
	Set     object
	Cluster map[string]object
}

// What templates know as .Files.
type files string

func (folder files) Get(name string) string {
	content, err := os.ReadFile(filepath.Join(string(folder), name))
	if err != nil {
		return ""
	}
	return string(content)
}

func main() {
	texts, err := render()
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(texts)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func render() (map[string]string, error) {
	var asked order
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		return nil, err
	}
	chart, err := readYaml(filepath.Join(asked.Chart, "Chart.yaml"))
	if err != nil {
		return nil, err
	}
	values, err := readYaml(filepath.Join(asked.Chart, "values.yaml"))
	if err != nil {
		return nil, err
	}
	root := template.New("chart").Option("missingkey=zero")
	root.Funcs(functions(root, asked.Cluster))
	paths, err := filepath.Glob(filepath.Join(asked.Chart, "templates", "*"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if _, err := root.New(filepath.Base(path)).Parse(string(content)); err != nil {
			return nil, err
		}
	}
	// Templates know the keys of Chart.yaml by names that begin with a capital.
	about := object{}
	for key, value := range chart {
		about[strings.ToUpper(key[:1])+key[1:]] = value
	}
	scope := object{
		"Chart":   about,
		"Files":   files(asked.Chart),
		"Release": asked.Release,
		"Values":  merge(merge(values, asked.Values), withIntegers(asked.Set).(object)),
	}
	texts := map[string]string{}
	for _, path := range paths {
		name := filepath.Base(path)
		if strings.HasPrefix(name, "_") {
			continue
		}
		text, err := execute(root, name, scope)
		if err != nil {
			return nil, err
		}
		texts[name] = text
	}
	return texts, nil
}

func execute(root *template.Template, name string, data interface{}) (string, error) {
	var text bytes.Buffer
	if err := root.ExecuteTemplate(&text, name, data); err != nil {
		return "", err
	}
	return strings.ReplaceAll(text.String(), "<no value>", ""), nil
}

// Those that Helm adds to sprig's, and without those that it takes away.
func functions(root *template.Template, cluster map[string]object) template.FuncMap {
	all := sprig.TxtFuncMap()
	delete(all, "env")
	delete(all, "expandenv")
	all["toYaml"] = toYaml
	all["include"] = func(name string, data interface{}) (string, error) { return execute(root, name, data) }
	all["required"] = func(why string, value interface{}) (interface{}, error) {
		if value == nil || value == "" {
			return nil, errors.New(why)
		}
		return value, nil
	}
	all["lookup"] = func(_, kind, _, name string) object {
		if found, ok := cluster[kind+"/"+name]; ok {
			return found
		}
		return object{}
	}
	return all
}

// What is written over the chart's own values: key by key, and null takes one away.
func merge(own, others object) object {
	merged := object{}
	for key, value := range own {
		merged[key] = value
	}
	for key, value := range others {
		before, isObject := merged[key].(object)
		after, isToo := value.(object)
		if value == nil {
			delete(merged, key)
		} else if isObject && isToo {
			merged[key] = merge(before, after)
		} else {
			merged[key] = value
		}
	}
	return merged
}

// Numbers as Helm has them that are given by --set.
func withIntegers(value interface{}) interface{} {
	switch given := value.(type) {
	case object:
		for key, each := range given {
			given[key] = withIntegers(each)
		}
	case float64:
		return int64(given)
	}
	return value
}

// Numbers as Helm has them: from JSON.
func readYaml(path string) (object, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var value object
	if err := yaml.Unmarshal(content, &value); err != nil {
		return nil, err
	}
	asJson, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	value = nil
	return value, json.Unmarshal(asJson, &value)
}

func toYaml(value interface{}) (string, error) {
	asJson, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	var plain interface{}
	if err := yaml.Unmarshal(asJson, &plain); err != nil {
		return "", err
	}
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	err = encoder.Encode(plain)
	return strings.TrimSuffix(text.String(), "\n"), err
}
