// --runtime: the kinds of programs for which a job sets variables and serves a protocol.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace muster::model {

enum class Runtime {
  kAuto,  // all below that cost nothing until a rank uses them, so all but TensorFlow's TF_CONFIG
  kTorch,
  kHorovod,
  kMpi,
  kMxnet,
  kJax,
  kTensorflow,
  kNone,  // only what Muster's own library needs
};

// INVALID_ARGUMENT, with the list of valid words, if `word` is not one of them.
base::Result<Runtime> parse_runtime(std::string_view word);
std::string_view runtime_word(Runtime runtime);

// Returns whether a job with --runtime `chosen` serves `one`, which must be neither kAuto nor kNone.
bool serves(Runtime chosen, Runtime one);

}  // namespace muster::model
