// Answers questions about the elements of stored arrays.
//
// Thread: the functions that take a reader run on the store's reading thread; merge_elements() is pure.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "launcherd/store/store_reader.h"
#include "model/job_array.h"
#include "proto/muster/v1/launcher.pb.h"
#include "proto/muster/v1/stored.pb.h"

namespace muster::launcherd::inline daemon {

// The job, element or array that a word of a request names.
struct NamedJob {
  base::JobId id;                     // of the job or of the element; of the array if the element has not started
  std::optional<int> unstarted = {};  // the index of an element that has not started
};
// Finds a job by JOB or JOB[INDEX], where JOB is an id or a unique prefix. NOT_FOUND: the job is unknown, or has no
// such element.
base::Result<NamedJob> find_named(StoreReader& reader, std::string_view word);

// The ranges of an array's indexes, as the request has them.
std::vector<model::IndexRange> ranges_of(const v1::ArraySpec& array);

// Adds how many elements are in which state.
base::Status add_counts(StoreReader& reader, const StoredJob& stored, v1::ArrayStatus& status);
// Returns the job of an element that has not started.
base::Result<v1::Job> read_unstarted(StoreReader& reader, const base::JobId& array, int index);
// FAILED_PRECONDITION: the job is not an array. INVALID_ARGUMENT: the page.
base::Result<v1::ListElementsResponse> read_elements(StoreReader& reader, const base::JobId& id,
                                                     const v1::ListElementsRequest& request);

struct ElementPage {
  std::vector<v1::ElementRange> ranges;
  std::optional<int> next;  // the index with which the next page begins
};
// Joins neighbours. `stored_from` returns some stored elements from an index on, by index; none if there are no more.
// Elements that are not stored have the state `unstarted`.
base::Result<ElementPage> merge_elements(
    const std::vector<model::IndexRange>& all, model::JobState unstarted, int first, std::size_t most,
    const std::function<base::Result<std::vector<StoredElement>>(int first)>& stored_from);

}  // namespace muster::launcherd::daemon
