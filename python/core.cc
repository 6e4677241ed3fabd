// trireme._core: the library's answers as text and its sweep as columns. What they are called in
// Python is in trireme/*.py. It is written against CPython's stable ABI, so that one module serves
// every CPython from 3.11 on (Debian 12's and Ubuntu 24.04's).
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstddef>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "trireme/trireme.h"

namespace {

namespace api = trireme::api;

PyObject* wrong_input = nullptr;  // trireme.Error, made with the module

struct Drop {
  void operator()(PyObject* object) const { Py_DecRef(object); }
};
using Held = std::unique_ptr<PyObject, Drop>;

struct Raised {};  // Python knows its exception already

Held held(PyObject* object) {
  if (object == nullptr) {
    throw Raised();
  }
  return Held(object);
}

class OthersRun {
 public:
  OthersRun() : state_(PyEval_SaveThread()) {}
  ~OthersRun() { PyEval_RestoreThread(state_); }
  OthersRun(const OthersRun&) = delete;
  OthersRun& operator=(const OthersRun&) = delete;

 private:
  PyThreadState* state_;
};

std::vector<std::string> texts_of(PyObject* sequence) {
  const Py_ssize_t count = PySequence_Size(sequence);
  if (count < 0) {
    throw Raised();
  }
  std::vector<std::string> texts;
  for (Py_ssize_t i = 0; i < count; ++i) {
    const Held one = held(PySequence_GetItem(sequence, i));
    Py_ssize_t size = 0;
    const char* text = PyUnicode_AsUTF8AndSize(one.get(), &size);
    if (text == nullptr) {
      throw Raised();
    }
    texts.emplace_back(text, static_cast<std::size_t>(size));
  }
  return texts;
}

// name: (numpy's word for an entry, the entries), which leave the table.
template <class T>
void add_column(PyObject* columns, const char* name, const char* entry, std::vector<T>& values) {
  const auto size = static_cast<Py_ssize_t>(values.size() * sizeof(T));
  const auto* bytes = reinterpret_cast<const char*>(values.data());
  const Held column = held(
      Py_BuildValue("(sN)", entry, held(PyByteArray_FromStringAndSize(bytes, size)).release()));
  std::vector<T>().swap(values);  // `= {}` would keep the memory
  if (PyDict_SetItemString(columns, name, column.get()) != 0) {
    throw Raised();
  }
}

Held columns_of(api::Sweep&& table) {
  using Counts = std::pair<const char*, std::vector<std::int32_t>*>;
  using Choices = std::pair<const char*, std::vector<std::int8_t>*>;
  using Reals = std::pair<const char*, std::vector<double>*>;
  Held columns = held(PyDict_New());
  for (const auto& [name, values] :
       {Counts{"tp", &table.tp}, Counts{"pp", &table.pp}, Counts{"vpp", &table.vpp},
        Counts{"dp", &table.dp}, Counts{"fsdp", &table.fsdp}, Counts{"cp", &table.cp},
        Counts{"ep", &table.ep}, Counts{"etp", &table.etp},
        Counts{"micro_batch", &table.micro_batch}, Counts{"micro_batches", &table.micro_batches}}) {
    add_column(columns.get(), name, "i4", *values);
  }
  for (const auto& [name, values] :
       {Choices{"sharding", &table.sharding}, Choices{"recompute", &table.recompute},
        Choices{"schedule", &table.schedule}, Choices{"fit", &table.fit}}) {
    add_column(columns.get(), name, "i1", *values);
  }
  for (const auto& [name, values] :
       {Reals{"step_seconds", &table.step_seconds}, Reals{"low_seconds", &table.low_seconds},
        Reals{"high_seconds", &table.high_seconds},
        Reals{"peak_allocated_gib", &table.peak_allocated_gib}}) {
    add_column(columns.get(), name, "f8", *values);
  }
  return columns;
}

Held ask(PyObject* arguments) {
  PyObject *command = nullptr, *words = nullptr;
  if (PyArg_ParseTuple(arguments, "OO", &command, &words) == 0) {
    throw Raised();
  }
  const std::vector<std::string> command_texts = texts_of(command);
  const std::vector<std::string> word_texts = texts_of(words);
  api::Answer answer;
  {
    const OthersRun others_run;
    answer = api::ask(command_texts, word_texts);
  }
  Held json = held(
      PyUnicode_FromStringAndSize(answer.json.data(), static_cast<Py_ssize_t>(answer.json.size())));
  return held(Py_BuildValue("(NN)", json.release(), PyBool_FromLong(answer.yes ? 1 : 0)));
}

Held sweep(PyObject* arguments) {
  PyObject *words = nullptr, *constraint = nullptr, *threads = nullptr;
  if (PyArg_ParseTuple(arguments, "OOO", &words, &constraint, &threads) == 0) {
    throw Raised();
  }
  api::Job job;
  job.more = texts_of(words);
  api::SweepOptions options;
  options.constraint = texts_of(constraint);
  if (threads != Py_None) {
    options.threads = PyLong_AsLongLong(threads);
    if (PyErr_Occurred() != nullptr) {
      throw Raised();
    }
  }
  api::Sweep table;
  {
    const OthersRun others_run;
    table = api::sweep(job, options);
  }
  const double seconds = table.seconds;
  return held(Py_BuildValue("(Nd)", columns_of(std::move(table)).release(), seconds));
}

Held version(PyObject* /*arguments*/) {
  return held(PyUnicode_FromString(api::version().c_str()));
}

// A function of ours as one of Python's: what it throws becomes Python's exception.
template <Held (*kFunction)(PyObject*)>
PyObject* called(PyObject* /*module*/, PyObject* arguments) noexcept {
  try {
    return kFunction(arguments).release();
  } catch (const Raised&) {
  } catch (const api::Error& error) {
    PyErr_SetString(wrong_input, error.what());
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

template <std::size_t N>
void add_names(PyObject* module, const char* name, const char* const (&words)[N]) {
  const Held all = held(PyTuple_New(static_cast<Py_ssize_t>(N)));
  for (std::size_t i = 0; i < N; ++i) {
    PyTuple_SetItem(all.get(), static_cast<Py_ssize_t>(i),
                    held(PyUnicode_FromString(words[i])).release());
  }
  if (PyObject_SetAttrString(module, name, all.get()) != 0) {
    throw Raised();
  }
}

PyMethodDef methods[] = {
    {"ask", &called<ask>, METH_VARARGS,
     "ask(command, words): the JSON that a command prints, and whether its answer is yes."},
    {"sweep", &called<sweep>, METH_VARARGS,
     "sweep(words, constraint, threads): every legal layout as columns, and the seconds it took."},
    {"version", &called<version>, METH_NOARGS, "The library's version."},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "_core",
                          "What trireme's Python functions call; use the package trireme.",
                          -1,
                          methods,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__core() {
  try {
    Held module = held(PyModule_Create(&definition));
    wrong_input = held(PyErr_NewExceptionWithDoc("trireme.Error",
                                                 "Wrong input: one line that says what and where.",
                                                 PyExc_ValueError, nullptr))
                      .release();
    if (PyObject_SetAttrString(module.get(), "Error", wrong_input) != 0) {
      return nullptr;
    }
    add_names(module.get(), "SHARDING", api::Sweep::sharding_names);
    add_names(module.get(), "RECOMPUTE", api::Sweep::recompute_names);
    add_names(module.get(), "SCHEDULE", api::Sweep::schedule_names);
    add_names(module.get(), "FIT", api::Sweep::fit_names);
    return module.release();
  } catch (const Raised&) {
    return nullptr;
  }
}
