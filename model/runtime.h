// --runtime: the kinds of programs for which a job sets variables and serves a protocol.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace muster::model {

enum class Runtime {
  kAuto,  // every one of those below that costs nothing until a rank uses it: all but TensorFlow's TF_CONFIG
  kTorch,
  kHorovod,
  kMpi,
  kMxnet,
  kJax,
  kTensorflow,
  kNone,  // only what Muster's own library needs
};

// INVALID_ARGUMENT: none of the words, which it names.
base::Result<Runtime> parse_runtime(std::string_view word);
std::string_view runtime_word(Runtime runtime);

// Whether a job with --runtime `chosen` serves `one`, which is neither kAuto nor kNone.
bool serves(Runtime chosen, Runtime one);

}  // namespace muster::model
