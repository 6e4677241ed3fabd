// trireme._core: the library's answers as text and its sweep as arrays. What they are called in
// Python is in trireme/*.py.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trireme/trireme.h"

namespace {

namespace py = pybind11;
namespace api = trireme::api;

// The array owns the column: nothing is copied.
template <class T>
py::array_t<T> array_of(std::vector<T>&& column) {
  auto owned = std::make_unique<std::vector<T>>(std::move(column));
  auto* const values = owned->data();
  const auto size = static_cast<py::ssize_t>(owned->size());
  const py::capsule owner(owned.release(),
                          [](void* held) { delete static_cast<std::vector<T>*>(held); });
  return py::array_t<T>(size, values, owner);
}

template <std::size_t N>
py::tuple names(const char* const (&of)[N]) {
  py::tuple all(N);
  for (std::size_t i = 0; i < N; ++i) {
    all[i] = py::str(of[i]);
  }
  return all;
}

py::dict columns(api::Sweep&& table) {
  py::dict all;
  all["tp"] = array_of(std::move(table.tp));
  all["pp"] = array_of(std::move(table.pp));
  all["vpp"] = array_of(std::move(table.vpp));
  all["dp"] = array_of(std::move(table.dp));
  all["fsdp"] = array_of(std::move(table.fsdp));
  all["cp"] = array_of(std::move(table.cp));
  all["ep"] = array_of(std::move(table.ep));
  all["etp"] = array_of(std::move(table.etp));
  all["micro_batch"] = array_of(std::move(table.micro_batch));
  all["micro_batches"] = array_of(std::move(table.micro_batches));
  all["sharding"] = array_of(std::move(table.sharding));
  all["recompute"] = array_of(std::move(table.recompute));
  all["schedule"] = array_of(std::move(table.schedule));
  all["fit"] = array_of(std::move(table.fit));
  all["step_seconds"] = array_of(std::move(table.step_seconds));
  all["low_seconds"] = array_of(std::move(table.low_seconds));
  all["high_seconds"] = array_of(std::move(table.high_seconds));
  all["peak_allocated_gib"] = array_of(std::move(table.peak_allocated_gib));
  return all;
}

std::pair<std::string, bool> ask(const std::vector<std::string>& command,
                                 const std::vector<std::string>& words) {
  const py::gil_scoped_release others_run;
  api::Answer answer = api::ask(command, words);
  return {std::move(answer.json), answer.yes};
}

std::pair<py::dict, double> sweep(const std::vector<std::string>& words,
                                  const std::vector<std::string>& constraint, api::Count threads) {
  api::Sweep table;
  {
    const py::gil_scoped_release others_run;
    api::Job job;
    job.more = words;
    api::SweepOptions options;
    options.constraint = constraint;
    options.threads = threads;
    table = api::sweep(job, options);
  }
  const double seconds = table.seconds;
  return {columns(std::move(table)), seconds};
}

}  // namespace

PYBIND11_MODULE(_core, module) {
  module.doc() = "What trireme's Python functions call; use the package trireme.";
  static py::exception<api::Error> error(module, "Error", PyExc_ValueError);
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      std::rethrow_exception(thrown);
    } catch (const api::Error& caught) {
      error(caught.what());
    }
  });
  module.def("ask", &ask, py::arg("command"), py::arg("words"),
             "The JSON that a command prints, and whether its answer is yes.");
  module.def("sweep", &sweep, py::arg("words"), py::arg("constraint"), py::arg("threads"),
             "Every legal layout as columns, and the seconds it took.");
  module.def("version", &api::version);
  module.attr("SHARDING") = names(api::Sweep::sharding_names);
  module.attr("RECOMPUTE") = names(api::Sweep::recompute_names);
  module.attr("SCHEDULE") = names(api::Sweep::schedule_names);
  module.attr("FIT") = names(api::Sweep::fit_names);
}
