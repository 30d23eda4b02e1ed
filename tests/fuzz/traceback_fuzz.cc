// The last lines of a rank's stderr, which may hold anything.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "model/traceback.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster::model;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string_view exception = exception_line(text);
  if (!exception.empty() &&
      (exception.data() < text.data() || exception.data() + exception.size() > text.data() + text.size())) {
    std::abort();
  }
  if (!is_same_exception(exception, exception)) std::abort();
  if (missing_module(text).size() + missing_library(exception).size() > 2 * size) std::abort();
  return 0;
}
