// Says how Muster treats a job that seems to hang: --hang-timeout and --on-hang. A plain value.
#pragma once

#include <chrono>

namespace muster::model {

enum class OnHang {
  kWarn,     // the job is reported and goes on
  kRestart,  // the suspect rank counts as failed, so that the job starts again
  kKill,     // the job ends
};

struct HangPolicy {
  std::chrono::milliseconds timeout{120'000};  // without output and progress; 0 means never
  OnHang on_hang = OnHang::kWarn;

  bool operator==(const HangPolicy&) const = default;
};

}  // namespace muster::model
