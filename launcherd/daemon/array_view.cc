// All of array_view.h.
// Read it in this order: find_named, merge_elements, read_elements, add_counts.
#include "launcherd/daemon/array_view.h"

#include <algorithm>

#include "base/strings.h"
#include "launcherd/daemon/job_view.h"
#include "launcherd/store/page_token.h"

namespace muster::launcherd::inline daemon {
namespace {

constexpr int kUsualPage = 100;
constexpr int kMostRangesOfAPage = 1000;

base::Status no_array(const base::JobId& id) {
  return base::failed_precondition("job {} is not an array, so it has no elements", id.str());
}

v1::ElementRange range_of(int first, int last, model::JobState state, std::optional<int> exit_code) {
  v1::ElementRange range;
  range.set_first(first);
  range.set_last(last);
  range.set_state(static_cast<v1::JobState>(state));  // both enumerations use the same numbers
  if (exit_code) range.set_exit_code(*exit_code);
  return range;
}

bool is_alike(const v1::ElementRange& one, const v1::ElementRange& other) {
  return one.state() == other.state() && one.has_exit_code() == other.has_exit_code() &&
         one.exit_code() == other.exit_code();
}

// Collects ranges until the page is full.
class Page {
 public:
  explicit Page(std::size_t most) : most_(most) {}

  // Returns false if the range does not fit on the page.
  bool add(v1::ElementRange range) {
    const bool continues = !page_.ranges.empty() && page_.ranges.back().last() + 1 == range.first() &&
                           is_alike(page_.ranges.back(), range);
    if (continues) {
      page_.ranges.back().set_last(range.last());
    } else if (page_.ranges.size() == most_) {
      page_.next = range.first();
      return false;
    } else {
      page_.ranges.push_back(std::move(range));
    }
    return true;
  }
  ElementPage take() { return std::move(page_); }

 private:
  const std::size_t most_;
  ElementPage page_;
};

// Elements that have not started when the array ends never start.
model::JobState state_of_unstarted(const StoredJob& array) {
  const bool is_stopping = array.state == model::JobState::kStopping || model::is_final(array.state);
  return is_stopping ? model::JobState::kKilled : model::JobState::kQueued;
}

base::Result<v1::StoredSpec> spec_of_array(StoreReader& reader, const base::JobId& id) {
  MUSTER_ASSIGN_OR_RETURN(v1::StoredSpec spec, stored_spec(reader, id));
  if (!spec.request().has_array()) return no_array(id);
  return spec;
}

base::Result<base::JobId> find_job(StoreReader& reader, std::string_view word) {
  if (auto id = base::JobId::parse(word); id.ok()) return id;
  return reader.job_by_prefix(word);
}

}  // namespace

std::vector<model::IndexRange> ranges_of(const v1::ArraySpec& array) {
  std::vector<model::IndexRange> ranges;
  for (const v1::IndexRange& range : array.elements()) ranges.push_back({range.first(), range.last()});
  return ranges;
}

base::Result<NamedJob> find_named(StoreReader& reader, std::string_view word) {
  const model::JobWord words = model::parse_job_word(word);
  MUSTER_ASSIGN_OR_RETURN(const base::JobId id, find_job(reader, words.job));
  if (!words.index) return NamedJob{id};
  MUSTER_ASSIGN_OR_RETURN(const v1::StoredSpec spec, spec_of_array(reader, id));
  auto element = reader.element(id, *words.index);
  if (element.ok()) return NamedJob{*std::move(element)};
  if (element.status().code() != base::Code::kNotFound) return element.status();
  const std::vector<model::IndexRange> ranges = ranges_of(spec.request().array());
  if (model::IndexSet(ranges).contains(*words.index)) return NamedJob{id, words.index};
  return base::not_found("job {} has no element {}; its elements are {}", id.str(), *words.index,
                         model::short_index_list(model::IndexSet(ranges)));
}

base::Result<ElementPage> merge_elements(
    const std::vector<model::IndexRange>& all, model::JobState unstarted, int first, std::size_t most,
    const std::function<base::Result<std::vector<StoredElement>>(int first)>& stored_from) {
  Page page(most);
  std::vector<StoredElement> stored;
  std::size_t at = 0;
  bool is_more = true;
  for (const model::IndexRange& range : all) {
    for (int next = std::max(first, range.first); next <= range.last;) {
      if (at == stored.size() && is_more) {
        MUSTER_ASSIGN_OR_RETURN(stored, stored_from(next));
        at = 0;
        is_more = !stored.empty();
      }
      const bool is_stored = at < stored.size() && stored[at].index == next;
      int last = next;
      if (!is_stored) last = at < stored.size() ? std::min(range.last, stored[at].index - 1) : range.last;
      const bool fits = page.add(is_stored ? range_of(next, next, stored[at].state, stored[at].exit_code)
                                           : range_of(next, last, unstarted, std::nullopt));
      if (!fits) return page.take();
      if (is_stored) ++at;
      next = last + 1;
    }
  }
  return page.take();
}

base::Status add_counts(StoreReader& reader, const StoredJob& stored, v1::ArrayStatus& status) {
  std::int64_t all = 0;
  for (const v1::IndexRange& range : status.elements()) all += std::int64_t{range.last()} - range.first() + 1;
  MUSTER_ASSIGN_OR_RETURN(const auto counts, reader.element_counts(stored.id));
  for (const auto& [state, count] : counts) {
    all -= count;
    if (!model::is_final(state)) {
      status.set_running(status.running() + count);
    } else if (state == model::JobState::kSucceeded) {
      status.set_succeeded(count);
    } else if (state == model::JobState::kKilled) {
      status.set_killed(count);
    } else {
      status.set_failed(status.failed() + count);
    }
  }
  if (state_of_unstarted(stored) == model::JobState::kKilled) {
    status.set_killed(status.killed() + all);
  } else {
    status.set_waiting(all);
  }
  return base::ok_status();
}

base::Result<v1::Job> read_unstarted(StoreReader& reader, const base::JobId& array, int index) {
  MUSTER_ASSIGN_OR_RETURN(const StoredJob stored, reader.job(array));
  MUSTER_ASSIGN_OR_RETURN(v1::Job job, read_listed_job(reader, stored));
  const model::JobState state = state_of_unstarted(stored);
  job.set_state(static_cast<v1::JobState>(state));
  job.clear_array();
  job.clear_started();
  job.clear_exit_code();
  job.set_last_event(0);
  if (model::is_final(state) && !job.has_ended()) *job.mutable_ended() = job.submitted();
  if (!model::is_final(state)) job.set_reason("waits for its turn in the array");
  job.mutable_element()->set_array(array.str());
  job.mutable_element()->set_index(index);
  return job;
}

base::Result<v1::ListElementsResponse> read_elements(StoreReader& reader, const base::JobId& id,
                                                     const v1::ListElementsRequest& request) {
  if (request.page_size() < 0) return base::invalid_argument("page_size: {} is negative", request.page_size());
  MUSTER_ASSIGN_OR_RETURN(const std::int64_t first, parse_offset_token(request.page_token()));
  if (first > model::kHighestIndex) return base::invalid_argument("page_token: not one of this launcherd's");
  MUSTER_ASSIGN_OR_RETURN(const StoredJob stored, reader.job(id));
  MUSTER_ASSIGN_OR_RETURN(const v1::StoredSpec spec, spec_of_array(reader, id));
  const int most = request.page_size() == 0 ? kUsualPage : std::min(request.page_size(), kMostRangesOfAPage);
  MUSTER_ASSIGN_OR_RETURN(const ElementPage page,
                          merge_elements(ranges_of(spec.request().array()), state_of_unstarted(stored),
                                         static_cast<int>(first), static_cast<std::size_t>(most),
                                         [&](int from) { return reader.elements(id, from, kLongestPage); }));
  v1::ListElementsResponse response;
  for (const v1::ElementRange& range : page.ranges) *response.add_elements() = range;
  if (page.next) response.set_next_page_token(offset_token(*page.next));
  return response;
}

}  // namespace muster::launcherd::daemon
