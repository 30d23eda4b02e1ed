// When a program for GPUs says "skipped": where there is no driver at all. A driver that does not load, start or take
// the kernels is an error, for what was to be tested has not been.
#pragma once

#include "base/status.h"

namespace muster::collectives::device {

inline bool is_no_driver(const base::Status& status) {
  return status.code() == base::Code::kNotFound &&
         status.message().find("libcuda.so.1: cannot open shared object file: No such file") != std::string::npos;
}

}  // namespace muster::collectives::device
