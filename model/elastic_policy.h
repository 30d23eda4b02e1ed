// Which changes of a job's size launcherd makes by itself: --elastic-policy. A plain value.
#pragma once

namespace muster::model {

enum class ElasticPolicy {
  kFixed,     // none
  kGiveBack,  // the job gives slots to a waiting job of higher priority
  kGrow,      // the job gets free slots while no job waits
  kBoth,
};

constexpr bool gives_back(ElasticPolicy policy) {
  return policy == ElasticPolicy::kGiveBack || policy == ElasticPolicy::kBoth;
}
constexpr bool grows(ElasticPolicy policy) {
  return policy == ElasticPolicy::kGrow || policy == ElasticPolicy::kBoth;
}

}  // namespace muster::model
