// The diagnosis of a host: one row for each check, with its verdict. Plain values.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace muster::model {

// In order: a worse state is greater.
enum class CheckState { kOk, kWarn, kFail };

struct Check {
  std::string name{};
  CheckState state = CheckState::kOk;
  std::string seen{};
  std::string advice{};  // what to do; empty if the state is kOk

  bool operator==(const Check&) const = default;
};

struct HostDiagnosis {
  std::string host;  // as in the host list
  std::vector<Check> checks;
  std::vector<Check> differences;  // values that differ between hosts; `seen` is this host's

  CheckState state() const {
    CheckState worst = CheckState::kOk;
    for (const auto* list : {&checks, &differences}) {
      for (const Check& check : *list) worst = std::max(worst, check.state);
    }
    return worst;
  }
};

}  // namespace muster::model
