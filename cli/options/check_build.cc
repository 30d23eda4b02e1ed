#include "cli/options/check_build.h"

#include <fmt/format.h>

namespace muster::cli::inline options {

BuildFeatures this_build() {
  BuildFeatures features;
  // Muster's package `horovod` has a module for each of these frameworks (python/muster/dropin). Tests run all three.
  features.tensorflow = true;
  features.pytorch = true;
  features.mxnet = true;
  // Muster serves Horovod's Gloo controller (rendezvous/horovod_server.h), and libmuster replaces Horovod's Gloo
  // operations. libmuster looks for NCCL at run time, so hvd.nccl_built() reports it.
  features.gloo = true;
  features.gloo_operations = true;
  return features;
}

std::string format_build(const BuildFeatures& features, bool verbose) {
  const auto box = [](bool has, const char* name) { return fmt::format("    [{}] {}\n", has ? 'X' : ' ', name); };
  std::string text = verbose ? "\n" : "";
  text += fmt::format("Muster v{}:\n\nAvailable Frameworks:\n", MUSTER_VERSION);
  text += box(features.tensorflow, "TensorFlow") + box(features.pytorch, "PyTorch") + box(features.mxnet, "MXNet");
  text += "\nAvailable Controllers:\n";
  text += box(features.mpi, "MPI") + box(features.gloo, "Gloo");
  text += "\nAvailable Tensor Operations:\n";
  text += box(features.nccl_operations, "NCCL") + box(false, "DDL") + box(false, "CCL");
  text += box(features.mpi_operations, "MPI") + box(features.gloo_operations, "Gloo");
  return text;
}

}  // namespace muster::cli::options
