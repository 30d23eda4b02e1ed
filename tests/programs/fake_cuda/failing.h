// Which function a test makes fail, by a variable that names it: "cuMemAlloc_v2", or "ncclCommSplit:1" for rank 1
// alone, of the driver GPU 1.
#pragma once

#include <cstdlib>
#include <string>

namespace fake_cuda {

inline bool is_to_fail(const char* variable, const std::string& function, int where) {
  const char* const named = std::getenv(variable);
  return named != nullptr && (named == function || named == function + ":" + std::to_string(where));
}

}  // namespace fake_cuda
