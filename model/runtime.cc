#include "model/runtime.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/strings.h"

namespace muster::model {
namespace {

constexpr auto kWords = std::to_array<std::pair<Runtime, std::string_view>>({{Runtime::kAuto, "auto"},
                                                                             {Runtime::kTorch, "torch"},
                                                                             {Runtime::kHorovod, "horovod"},
                                                                             {Runtime::kMpi, "mpi"},
                                                                             {Runtime::kMxnet, "mxnet"},
                                                                             {Runtime::kJax, "jax"},
                                                                             {Runtime::kTensorflow, "tensorflow"},
                                                                             {Runtime::kNone, "none"}});

}  // namespace

base::Result<Runtime> parse_runtime(std::string_view word) {
  const auto* const found = std::ranges::find(kWords, word, &std::pair<Runtime, std::string_view>::second);
  if (found != kWords.end()) return found->first;
  return base::invalid_argument("'{}' is not a runtime: use auto, torch, horovod, mpi, mxnet, jax, tensorflow or none",
                                base::printable(word));
}

std::string_view runtime_word(Runtime runtime) {
  return std::ranges::find(kWords, runtime, &std::pair<Runtime, std::string_view>::first)->second;
}

bool serves(Runtime chosen, Runtime one) {
  // An estimator that finds TF_CONFIG waits for parameter servers, even if Horovod connects the ranks. So kAuto leaves
  // it out.
  if (chosen == Runtime::kAuto) return one != Runtime::kTensorflow;
  return chosen == one;
}

}  // namespace muster::model
