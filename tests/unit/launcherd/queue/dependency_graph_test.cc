#include "launcherd/queue/dependency_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::launcherd::dependency_graph_test {
namespace {

using model::AfterEnd;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

base::JobId id(char letter) {
  return *base::JobId::parse(std::string(8, letter));
}

TEST(DependencyGraph, KnowsBothDirections) {
  DependencyGraph graph;
  graph.set(id('c'), {{id('a'), AfterEnd::kOk}, {id('b'), AfterEnd::kAny}});
  graph.set(id('d'), {{id('a'), AfterEnd::kAny}});
  EXPECT_THAT(graph.waiting_for(id('a')), ElementsAre(id('c'), id('d')));
  EXPECT_THAT(graph.waiting_for(id('b')), ElementsAre(id('c')));
  EXPECT_EQ(graph.awaited_by(id('c')).size(), 2u);
  graph.set(id('c'), {{id('b'), AfterEnd::kAny}});
  EXPECT_THAT(graph.waiting_for(id('a')), ElementsAre(id('d')));
  graph.set(id('d'), {});
  EXPECT_THAT(graph.waiting_for(id('a')), IsEmpty());
  EXPECT_THAT(graph.awaited_by(id('d')), IsEmpty());
}

TEST(DependencyGraph, NamesTheShortestCircle) {
  DependencyGraph graph;
  graph.set(id('b'), {{id('a'), AfterEnd::kOk}});
  graph.set(id('c'), {{id('b'), AfterEnd::kOk}});
  graph.set(id('d'), {{id('c'), AfterEnd::kOk}, {id('a'), AfterEnd::kOk}});
  const std::vector<model::JobDependency> on_c = {{id('c'), AfterEnd::kOk}};
  const std::vector<model::JobDependency> on_d = {{id('d'), AfterEnd::kOk}};
  EXPECT_THAT(graph.circle(id('a'), on_c), ElementsAre(id('a'), id('c'), id('b'), id('a')));
  EXPECT_THAT(graph.circle(id('a'), on_d), ElementsAre(id('a'), id('d'), id('a')));
  EXPECT_THAT(graph.circle(id('d'), on_d), ElementsAre(id('d'), id('d')));
  EXPECT_THAT(graph.circle(id('e'), on_d), IsEmpty());
  EXPECT_THAT(graph.circle(id('d'), on_c), IsEmpty()) << "it waits for that job already";
}

}  // namespace
}  // namespace muster::launcherd::dependency_graph_test
