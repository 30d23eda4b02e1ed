// The elements of an array that has not ended: which wait, which run, and how the others have ended. Its memory grows
// with the elements that run and with the number of ranges, not with the number of elements.
//
// Owner: JobManager, for each open array.
// Thread: one thread. A plain value without I/O.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/ids.h"
#include "launcherd/store/records.h"
#include "model/job_array.h"
#include "model/job_state.h"

namespace muster::launcherd::inline daemon {

// How an array ends.
struct ArrayEnd {
  model::JobState state{};
  int exit_code = 0;
  std::string reason{};
};

class ArrayState {
 public:
  // `element` has the values that all elements share; its id and its place are of no element.
  ArrayState(model::ArraySpec spec, NewJob element)
      : most_at_once_(spec.most_at_once), waiting_(spec.elements), element_(std::move(element)) {}

  // Returns what the store needs of a new element, which gets `id`. Does not change the state.
  NewJob new_element(const base::JobId& array, int index, const base::JobId& id, base::WallTime now) const;

  void set_priority(int priority) { element_.priority = priority; }  // of elements that start later

  void start(int index, const base::JobId& id);  // the element waits
  // The element waits or runs. Does nothing if it has ended.
  void end(int index, model::JobState final_state, std::optional<int> exit_code);
  // No further element starts. `exit_code` is that of a killed array.
  void stop(int exit_code, std::string reason);

  bool is_stopping() const { return stop_.has_value(); }
  bool is_waiting(int index) const { return waiting_.contains(index); }
  int next() const { return waiting_.lowest(); }  // only if may_start() > 0
  // The number of elements that may start now: the limit allows them.
  std::int64_t may_start() const;
  std::int64_t waiting() const { return waiting_.size(); }
  const std::map<int, base::JobId>& running() const { return running_; }
  bool is_over() const { return running_.empty() && (is_stopping() || waiting_.empty()); }
  ArrayEnd outcome() const;  // only if is_over()

  // The state of the array itself, as stored or on its way to the store.
  model::JobState state = model::JobState::kQueued;

 private:
  int most_at_once_;
  model::IndexSet waiting_;
  std::map<int, base::JobId> running_;  // by index
  std::int64_t succeeded_ = 0;
  std::int64_t killed_ = 0;
  model::IndexSet failed_;
  std::optional<std::pair<int, int>> first_failed_;  // the lowest failed index, and its exit code
  std::optional<std::pair<int, std::string>> stop_;  // exit code and reason of a killed array
  NewJob element_;
};

}  // namespace muster::launcherd::daemon
