// A shared library that is looked for at run time, and stays loaded for as long as the process lives: its threads and
// exit handlers do not survive being unloaded.
#pragma once

#include <string>

#include "base/status.h"

namespace muster::collectives::device {

class Library {
 public:
  // NOT_FOUND: it is not on this host, or does not load; says why.
  static base::Result<Library> open(const char* name);

  // NOT_FOUND: this version of the library lacks it.
  template <class Function>
  base::Status find(const char* symbol, Function*& function) const {
    void* const found = find(symbol);
    if (found == nullptr) return base::error(base::Code::kNotFound, "{} has no {}: it is too old", name_, symbol);
    function = reinterpret_cast<Function*>(found);
    return base::ok_status();
  }

 private:
  Library(void* handle, std::string name) : handle_(handle), name_(std::move(name)) {}
  void* find(const char* symbol) const;

  void* handle_;
  std::string name_;
};

}  // namespace muster::collectives::device
