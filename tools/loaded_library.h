// A shared library opened by its name, for as long as it is looked at.
#pragma once

#include <dlfcn.h>

#include <string>
#include <vector>

namespace trireme::tools {

class LoadedLibrary {
 public:
  // The first of `names` that opens; from `folder` only, unless that is empty.
  LoadedLibrary(const std::string& folder, const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      const std::string place = folder.empty() ? name : folder + "/" + name;
      handle_ = ::dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle_ != nullptr) {
        name_ = name;
        return;
      }
    }
  }
  LoadedLibrary(const LoadedLibrary&) = delete;
  LoadedLibrary& operator=(const LoadedLibrary&) = delete;
  LoadedLibrary(LoadedLibrary&&) = delete;
  LoadedLibrary& operator=(LoadedLibrary&&) = delete;
  // Never closed: the driver's library starts threads that its unloading would leave without code.
  ~LoadedLibrary() = default;

  [[nodiscard]] bool found() const { return handle_ != nullptr; }
  [[nodiscard]] const std::string& name() const { return name_; }
  // nullptr when the library has no such function.
  template <class Function>
  [[nodiscard]] Function* function(const char* symbol) const {
    return handle_ == nullptr ? nullptr : reinterpret_cast<Function*>(::dlsym(handle_, symbol));
  }

 private:
  void* handle_ = nullptr;
  std::string name_;
};

}  // namespace trireme::tools
