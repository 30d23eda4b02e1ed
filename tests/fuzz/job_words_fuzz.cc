// The words of --after and --array, and names such as JOB[17]: they are read, or one sentence says why not. What was
// read can be written and read again.
#include <cstdint>
#include <string>
#include <string_view>

#include "model/job_array.h"
#include "model/job_dependency.h"

namespace {

using namespace muster;

void check_sentence(const base::Status& status) {
  MUSTER_CHECK(status.code() == base::Code::kInvalidArgument);
  MUSTER_CHECK(!status.message().empty() && status.message().size() < 1024);
  MUSTER_CHECK(status.message().find('\n') == std::string::npos);
}

void check_set(const model::ArraySpec& array) {
  model::IndexSet indexes(array.elements);
  const int lowest = indexes.lowest();
  MUSTER_CHECK(lowest == array.elements.front().first && indexes.size() <= model::kMostElements);
  const auto before = indexes.size();
  MUSTER_CHECK(indexes.remove(lowest) && !indexes.contains(lowest) && indexes.size() == before - 1);
  indexes.add(lowest);
  MUSTER_CHECK(indexes.contains(lowest) && indexes.size() == before);
  MUSTER_CHECK(model::short_index_list(indexes).size() < 1024);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto array = model::parse_array(text);
  if (array.ok()) {
    check_set(*array);
    MUSTER_CHECK(model::parse_array(model::format_array(*array)).ok());
    MUSTER_CHECK(*model::parse_array(model::format_array(*array)) == *array);
  } else {
    check_sentence(array.status());
  }
  const auto dependency = model::parse_dependency(text);
  if (dependency.ok()) {
    MUSTER_CHECK(!dependency->job.empty() && text.starts_with(dependency->job));
  } else {
    check_sentence(dependency.status());
  }
  const model::JobWord word = model::parse_job_word(text);
  MUSTER_CHECK(text.starts_with(word.job));
  if (!word.index) {
    MUSTER_CHECK(word.job == text);
  } else {
    const std::string name = model::element_name(word.job, *word.index);  // `again` borrows it
    const model::JobWord again = model::parse_job_word(name);
    MUSTER_CHECK(again.job == word.job && again.index == word.index);
  }
  return 0;
}
