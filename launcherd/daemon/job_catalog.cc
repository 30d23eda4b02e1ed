// The whole of JobCatalog.
// Read list() at the end first, then keep_matching() and sort(), then facts_of().
#include "launcherd/daemon/job_catalog.h"

#include <algorithm>
#include <chrono>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "base/strings.h"
#include "launcherd/daemon/job_view.h"
#include "launcherd/store/page_token.h"

namespace muster::launcherd::inline daemon {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

std::vector<std::string> words_of(std::string_view filter) {
  std::vector<std::string> words;
  for (const std::string_view word : base::split(filter, ' ')) {
    if (!word.empty()) words.push_back(lower(word));
  }
  return words;
}

void add_line(std::string& text, std::string_view line) {
  text += lower(line);
  text += '\n';
}

void add_words(std::string& text, const google::protobuf::RepeatedPtrField<std::string>& words) {
  for (const std::string& word : words) text += lower(word) + ' ';
  text += '\n';
}

std::string text_of(const StoredJob& job, const v1::StoredSpec& stored) {
  const v1::JobSpec& spec = stored.request().spec();
  std::string text;
  add_line(text, job.id.str());
  add_line(text, job.name);
  add_words(text, spec.command());
  for (const v1::Role& role : spec.roles()) add_words(text, role.command());
  for (const v1::WantedHost& host : spec.hosts()) add_line(text, host.name());
  for (const v1::NameValue& label : stored.request().labels()) add_line(text, label.name() + "=" + label.value());
  return text;
}

// Running jobs come first, then those that wait, then ended ones.
int place_of(const JobKey& key) {
  if (model::is_final(key.state)) return 2;
  return key.state == model::JobState::kQueued ? 1 : 0;
}

std::int64_t run_time(const JobKey& key, base::WallTime now) {
  if (!key.started) return 0;
  return std::chrono::duration_cast<std::chrono::microseconds>(key.ended.value_or(now) - *key.started).count();
}

bool is_newest_first(const v1::ListJobsRequest& request) {
  return request.order() == v1::JOB_ORDER_UNSPECIFIED && !request.reverse();
}

// Sorts by `value_of`, the smallest first. Equal jobs stay newest first.
template <typename ValueOf>
void sort_by(std::vector<JobKey>& keys, bool reverse, ValueOf value_of) {
  std::ranges::stable_sort(keys, [&](const JobKey& a, const JobKey& b) {
    return reverse ? value_of(b) < value_of(a) : value_of(a) < value_of(b);
  });
}

// Returns the position of the page's first job.
base::Result<std::size_t> first_of_page(const v1::ListJobsRequest& request, const std::vector<JobKey>& keys) {
  if (!is_newest_first(request)) {
    MUSTER_ASSIGN_OR_RETURN(const std::int64_t offset, parse_offset_token(request.page_token()));
    return std::min(static_cast<std::size_t>(offset), keys.size());
  }
  MUSTER_ASSIGN_OR_RETURN(const std::int64_t below, parse_page_token(request.page_token()));
  const auto first = std::ranges::find_if(keys, [below](const JobKey& key) { return key.number < below; });
  return static_cast<std::size_t>(first - keys.begin());
}

// Adds the jobs from keys[first] on, until the page is full or too long.
base::Status add_page(StoreReader& reader, const v1::ListJobsRequest& request, const std::vector<JobKey>& keys,
                      std::size_t first, v1::ListJobsResponse& response) {
  MUSTER_ASSIGN_OR_RETURN(const int limit, page_size_of(request));
  std::size_t bytes = 0;
  std::size_t next = first;
  for (; next < keys.size() && response.jobs_size() < limit; ++next) {
    const auto stored = reader.job_of_number(keys[next].number);
    if (stored.status().code() == base::Code::kNotFound) continue;  // its retention time ended just now
    if (!stored.ok()) return stored.status();
    MUSTER_ASSIGN_OR_RETURN(v1::Job job, read_listed_job(reader, *stored));
    bytes += job.ByteSizeLong();
    if (bytes > kLongestAnswer && !response.jobs().empty()) break;
    *response.add_jobs() = std::move(job);
  }
  if (next < keys.size()) {
    response.set_next_page_token(is_newest_first(request) ? page_token(keys[next - 1].number)
                                                          : offset_token(static_cast<std::int64_t>(next)));
  }
  return base::ok_status();
}

}  // namespace

base::Result<JobCatalog::Facts> JobCatalog::facts_of(StoreReader& reader, const JobKey& key, bool needs_text) {
  const auto known = facts_.find(key.number);
  Facts facts = known == facts_.end() ? Facts() : known->second;
  if (known == facts_.end()) {
    MUSTER_ASSIGN_OR_RETURN(const StoredJob job, reader.job_of_number(key.number));
    const auto spec = stored_spec(reader, job.id);
    if (!spec.ok() && spec.status().code() != base::Code::kDataLoss) return spec.status();
    facts.size = spec.ok() ? spec->size() : 0;
    facts.spec_text = text_of(job, spec.ok() ? *spec : v1::StoredSpec());
  } else if (!needs_text || facts.last_sequence == key.last_sequence) {
    return facts;
  }
  if (needs_text) {
    facts.host_text.clear();
    MUSTER_ASSIGN_OR_RETURN(const auto hosts, reader.rank_hosts(key.number, key.attempt));
    for (const std::string& host : hosts) add_line(facts.host_text, host);
    facts.last_sequence = key.last_sequence;
  }
  if (facts.spec_text.size() + facts.host_text.size() <= kLongestText) facts_[key.number] = facts;
  return facts;
}

base::Result<bool> JobCatalog::matches(StoreReader& reader, const JobKey& key, const std::vector<std::string>& words) {
  auto facts = facts_of(reader, key, true);
  if (facts.status().code() == base::Code::kNotFound) return false;  // its retention time ended just now
  if (!facts.ok()) return facts.status();
  const std::string state = lower(model::name_of(key.state));
  return std::ranges::all_of(words, [&](const std::string& word) {
    return facts->spec_text.find(word) != std::string::npos || facts->host_text.find(word) != std::string::npos ||
           state.find(word) != std::string::npos;
  });
}

base::Status JobCatalog::keep_matching(StoreReader& reader, const v1::ListJobsRequest& request,
                                       std::vector<JobKey>& keys) {
  if (!request.states().empty()) {
    std::erase_if(keys, [&](const JobKey& key) {
      return std::ranges::find(request.states(), static_cast<int>(key.state)) == request.states().end();
    });
  }
  const std::vector<std::string> words = words_of(request.filter());
  if (words.empty()) return base::ok_status();
  std::vector<JobKey> kept;
  for (JobKey& key : keys) {
    MUSTER_ASSIGN_OR_RETURN(const bool is_meant, matches(reader, key, words));
    if (is_meant) kept.push_back(std::move(key));
  }
  keys = std::move(kept);
  return base::ok_status();
}

base::Status JobCatalog::sort(StoreReader& reader, const v1::ListJobsRequest& request, base::WallTime now,
                              std::vector<JobKey>& keys) {
  const bool reverse = request.reverse();
  switch (request.order()) {
    case v1::JOB_ORDER_UNSPECIFIED:
      if (reverse) std::ranges::reverse(keys);
      return base::ok_status();
    case v1::JOB_ORDER_STATE:
      sort_by(keys, reverse, place_of);
      return base::ok_status();
    case v1::JOB_ORDER_NAME:
      sort_by(keys, reverse, [](const JobKey& key) -> const std::string& { return key.name; });
      return base::ok_status();
    case v1::JOB_ORDER_PRIORITY:
      sort_by(keys, reverse, [](const JobKey& key) { return -std::int64_t{key.priority}; });
      return base::ok_status();
    case v1::JOB_ORDER_TIME:
      sort_by(keys, reverse, [now](const JobKey& key) { return -run_time(key, now); });
      return base::ok_status();
    case v1::JOB_ORDER_SIZE: {
      std::unordered_map<std::int64_t, int> sizes;
      for (const JobKey& key : keys) {
        const auto facts = facts_of(reader, key, false);
        if (!facts.ok() && facts.status().code() != base::Code::kNotFound) return facts.status();
        sizes[key.number] = facts.ok() ? facts->size : 0;
      }
      sort_by(keys, reverse, [&](const JobKey& key) { return -sizes.at(key.number); });
      return base::ok_status();
    }
    default:
      return base::invalid_argument("order: {} is unknown", static_cast<int>(request.order()));
  }
}

// Drops what the catalog keeps of jobs that the store no longer has. `keys` are those of all jobs.
void JobCatalog::forget_others(const std::vector<JobKey>& keys) {
  if (facts_.size() <= keys.size()) return;
  std::unordered_set<std::int64_t> numbers;
  for (const JobKey& key : keys) numbers.insert(key.number);
  std::erase_if(facts_, [&](const auto& entry) { return !numbers.contains(entry.first); });
}

base::Result<v1::ListJobsResponse> JobCatalog::list(StoreReader& reader, const v1::ListJobsRequest& request,
                                                    base::WallTime now) {
  if (request.filter().size() > kLongestFilter) {
    return base::invalid_argument("filter: {} bytes exceed the limit of {}", request.filter().size(), kLongestFilter);
  }
  if (is_newest_first(request) && request.filter().empty() && request.states().empty()) {
    return read_jobs(reader, request);
  }
  MUSTER_ASSIGN_OR_RETURN(auto keys,
                          reader.job_keys(request.all() ? StoreReader::Which::kAll : StoreReader::Which::kOpen));
  if (request.all()) forget_others(keys);
  MUSTER_RETURN_IF_ERROR(keep_matching(reader, request, keys));
  MUSTER_RETURN_IF_ERROR(sort(reader, request, now, keys));
  MUSTER_ASSIGN_OR_RETURN(const std::size_t first, first_of_page(request, keys));
  v1::ListJobsResponse response;
  response.set_total(static_cast<std::int64_t>(keys.size()));
  MUSTER_RETURN_IF_ERROR(add_page(reader, request, keys, first, response));
  return response;
}

}  // namespace muster::launcherd::daemon
