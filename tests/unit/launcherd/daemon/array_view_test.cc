#include "launcherd/daemon/array_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/launcherd/store/store_rig.h"

namespace muster::launcherd::array_view_test {
namespace {

using model::IndexRange;
using model::JobState;
using ::testing::ElementsAre;

StoredElement element(int index, JobState state, std::optional<int> exit_code = {}) {
  return {.id = base::JobId::random(), .index = index, .state = state, .exit_code = exit_code};
}

// The pages of the array, as "0-3 QUEUED".
std::vector<std::string> pages(const std::vector<IndexRange>& all, const std::vector<StoredElement>& stored,
                               std::size_t most, std::size_t at_once = 2) {
  std::vector<std::string> texts;
  for (int first = 0;;) {
    const auto page = merge_elements(all, JobState::kQueued, first, most, [&](int from) {
      std::vector<StoredElement> some;
      for (const StoredElement& each : stored) {
        if (each.index >= from && some.size() < at_once) some.push_back(each);
      }
      return base::Result<std::vector<StoredElement>>(some);
    });
    EXPECT_TRUE(page.ok());
    EXPECT_LE(page->ranges.size(), most);
    for (const v1::ElementRange& range : page->ranges) {
      const auto state = static_cast<JobState>(range.state());
      texts.push_back(fmt::format("{}-{} {}{}", range.first(), range.last(), model::name_of(state),
                                  range.has_exit_code() ? fmt::format(" {}", range.exit_code()) : ""));
    }
    if (!page->next) return texts;
    EXPECT_GT(*page->next, first);
    first = *page->next;
  }
}

TEST(MergeElements, JoinsNeighboursOfTheSameState) {
  const std::vector<StoredElement> stored = {element(0, JobState::kSucceeded, 0), element(1, JobState::kSucceeded, 0),
                                             element(2, JobState::kFailed, 3),    element(4, JobState::kFailed, 3),
                                             element(5, JobState::kRunning),      element(20, JobState::kRunning)};
  for (const std::size_t most : {1u, 2u, 100u}) {
    EXPECT_THAT(pages({{0, 9}, {20, 21}}, stored, most),
                ElementsAre("0-1 SUCCEEDED 0", "2-2 FAILED 3", "3-3 QUEUED", "4-4 FAILED 3", "5-5 RUNNING",
                            "6-9 QUEUED", "20-20 RUNNING", "21-21 QUEUED"))
        << most;
  }
}

TEST(MergeElements, AnArrayThatWaitsIsOneRange) {
  EXPECT_THAT(pages({{0, 999'999}}, {}, 10), ElementsAre("0-999999 QUEUED"));
  EXPECT_THAT(pages({{0, 4}, {5, 9}, {11, 11}}, {}, 10), ElementsAre("0-9 QUEUED", "11-11 QUEUED"));
}

class ArrayViewTest : public ::testing::Test {
 protected:
  ArrayViewTest() : writer_(testing_store::open_writer(temp_ / "jobs.sqlite")) {
    v1::StoredSpec spec;
    v1::IndexRange& range = *spec.mutable_request()->mutable_array()->add_elements();
    range.set_first(3);
    range.set_last(5);
    NewJob array = testing_store::new_job("aabbccdd");
    array.spec = spec.SerializeAsString();
    NewJob element = testing_store::new_job("bbbbbbbb");
    element.element = ArrayPlace{array.id, 4};
    NewJob single = testing_store::new_job("cccccccc");
    single.spec = element.spec = v1::StoredSpec().SerializeAsString();
    EXPECT_TRUE(testing_store::commit(writer_, {array, element, single}).ok());
    reader_.emplace(std::move(*StoreReader::open(temp_ / "jobs.sqlite")));
  }
  std::string failure(std::string_view word) { return find_named(*reader_, word).status().message(); }

  testing_support::TempDir temp_;
  BatchWriter writer_;
  std::optional<StoreReader> reader_;
};

TEST_F(ArrayViewTest, FindsJobsAndElements) {
  EXPECT_EQ(find_named(*reader_, "aa")->id.str(), "aabbccdd");
  EXPECT_EQ(find_named(*reader_, "aa[4]")->id.str(), "bbbbbbbb");
  const auto waiting = find_named(*reader_, "aabbccdd[5]");
  EXPECT_EQ(waiting->id.str(), "aabbccdd");
  EXPECT_EQ(waiting->unstarted, 5);
  EXPECT_EQ(failure("aa[6]"), "job aabbccdd has no element 6; its elements are 3-5");
  EXPECT_EQ(failure("cc[0]"), "job cccccccc is not an array, so it has no elements");
  EXPECT_EQ(failure("zz[0]"), "unknown job 'zz'");
}

TEST_F(ArrayViewTest, CountsElements) {
  v1::ArrayStatus status;
  status.add_elements()->set_first(3);
  status.mutable_elements(0)->set_last(5);
  ASSERT_TRUE(add_counts(*reader_, *reader_->job(testing_store::job_id("aabbccdd")), status).ok());
  EXPECT_EQ(status.waiting(), 2);
  EXPECT_EQ(status.running(), 1);
  v1::ListElementsRequest request;
  const auto page = read_elements(*reader_, testing_store::job_id("aabbccdd"), request);
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(page->elements_size(), 1) << "all are queued";
  EXPECT_EQ(page->next_page_token(), "");
  request.set_page_token("no token");
  EXPECT_EQ(read_elements(*reader_, testing_store::job_id("aabbccdd"), request).status().code(),
            base::Code::kInvalidArgument);
}

}  // namespace
}  // namespace muster::launcherd::array_view_test
