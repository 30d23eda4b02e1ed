#include "model/job_event.h"

#include "base/strings.h"

namespace muster::model {

std::string describe(const GenerationBegan& began) {
  std::string line = fmt::format("generation {}: {} → {} ranks", began.number, began.from, began.to);
  if (!began.added.empty()) line += fmt::format(", {} joined", base::join(began.added, ", "));
  if (!began.lost.empty()) line += fmt::format(", {} lost", base::join(began.lost, ", "));
  if (!began.reason.empty()) line += fmt::format(" ({})", began.reason);
  constexpr double kMillisPerSecond = 1000;
  return line + fmt::format(", {:.2f} s", static_cast<double>(began.elapsed.count()) / kMillisPerSecond);
}

std::string describe(const FirstCollectiveEnded& ended) {
  return fmt::format("generation {}: first collective after {:.2f} s", ended.generation,
                     std::chrono::duration<double>(ended.elapsed).count());
}

}  // namespace muster::model
