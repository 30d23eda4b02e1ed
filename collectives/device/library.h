// A shared library that is loaded at run time. It stays loaded until the process ends, because its threads and exit
// handlers do not survive unloading.
#pragma once

#include <string>

#include "base/status.h"

namespace muster::collectives::device {

class Library {
 public:
  // NOT_FOUND if the library is not on this host or does not load; the message says why.
  static base::Result<Library> open(const char* name);

  // NOT_FOUND if this version of the library lacks the symbol.
  template <class Function>
  base::Status find(const char* symbol, Function*& function) const {
    void* const found = find(symbol);
    if (found == nullptr) return base::not_found("{} has no {}: the library is too old", name_, symbol);
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
