package scheduler

import (
	"reflect"

	"github.com/hibiken/asynq"
)

// hidden returns copies of the options that a task was made with, which asynq keeps in a private
// field. Without such a field, it returns no options.
func hidden(task *asynq.Task) ([]asynq.Option, error) {
	field := reflect.ValueOf(task).Elem().FieldByName("opts")
	if !field.IsValid() || field.Kind() != reflect.Slice {
		return nil, nil
	}
	var options []asynq.Option
	for i := range field.Len() {
		value := field.Index(i)
		if value.Kind() == reflect.Interface {
			value = value.Elem()
		}
		if !value.IsValid() {
			continue
		}
		option := copied(value)
		if option == nil {
			return nil, invalid("option", "%v of asynq.NewTask is hidden in the task: pass it to Enqueue", value.Type())
		}
		options = append(options, option)
	}
	return options, nil
}

// copied returns an option of the same type and value; nil if the value is more than a number or a
// text. Values of a private field can be read but not used.
func copied(value reflect.Value) asynq.Option {
	twin := reflect.New(value.Type()).Elem()
	switch {
	case value.CanInt():
		twin.SetInt(value.Int())
	case value.Kind() == reflect.String:
		twin.SetString(value.String())
	default:
		return nil
	}
	option, _ := twin.Interface().(asynq.Option)
	return option
}
