// Page tokens and prefixes of job ids that clients hand back: the answer is a page, a job or one sentence, and nothing
// in the store changes. Input: a line of token, then the prefix.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "launcherd/store/batch_writer.h"
#include "launcherd/store/page_token.h"
#include "launcherd/store/schema.h"
#include "launcherd/store/store_reader.h"

namespace {

using namespace muster;

std::string make_store() {
  std::string directory = (std::filesystem::temp_directory_path() / "page_token.XXXXXX").string();
  MUSTER_CHECK(::mkdtemp(directory.data()) != nullptr);
  auto database = launcherd::open_store(directory + "/jobs.sqlite", launcherd::store_migrations());
  MUSTER_CHECK(database.ok());
  auto writer = launcherd::BatchWriter::create(std::move(*database));
  MUSTER_CHECK(writer.ok());
  launcherd::Batch batch;
  for (const char* const id : {"aaaaaaaa", "aabbbbbb", "zzzzzzzz"}) {
    batch.emplace_back(launcherd::NewJob{.id = *base::JobId::parse(id)});
  }
  const launcherd::Batch* const only = &batch;
  MUSTER_CHECK(writer->commit({&only, 1}).front().ok());
  return directory;
}

// A store of three jobs in a directory of its own.
struct Store {
  std::string directory = make_store();
  launcherd::StoreReader reader = std::move(*launcherd::StoreReader::open(directory + "/jobs.sqlite"));

  Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  ~Store() { std::filesystem::remove_all(directory); }
};

void check_sentence(const base::Status& status) {
  MUSTER_CHECK(!status.message().empty() && status.message().size() < 1024);
  MUSTER_CHECK(status.message().find('\n') == std::string::npos);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Store store;  // made once for all inputs
  launcherd::StoreReader& reader = store.reader;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t end = std::min(input.find('\n'), input.size());
  const std::string_view token = input.substr(0, end);
  const auto number = launcherd::parse_page_token(token);
  const auto page = reader.jobs(launcherd::StoreReader::Which::kAll, 2, token);
  MUSTER_CHECK(number.ok() == page.ok());
  if (!number.ok()) {
    check_sentence(number.status());
  } else {
    MUSTER_CHECK(token.empty() || launcherd::page_token(*number) == token);
    for (const launcherd::StoredJob& job : page->jobs) MUSTER_CHECK(job.number < *number);
    MUSTER_CHECK(page->jobs.size() <= 2);
  }
  const auto offset = launcherd::parse_offset_token(token);
  if (!offset.ok()) {
    check_sentence(offset.status());
  } else {
    MUSTER_CHECK(token.empty() || (launcherd::offset_token(*offset) == token && !number.ok()));
  }
  const std::string_view prefix = input.substr(std::min(end + 1, input.size()));
  const auto job = reader.job_by_prefix(prefix);
  if (job.ok()) {
    MUSTER_CHECK(job->str().starts_with(prefix) && !prefix.empty());
  } else {
    check_sentence(job.status());
  }
  return 0;
}
