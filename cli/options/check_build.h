// --check-build: what this build has, in horovodrun's form. Pure.
#pragma once

#include <string>

namespace muster::cli::inline options {

// Frameworks: those with a module in Muster's `horovod`. Controllers: of Horovod, that ranks can use. Operations: what
// libmuster does collectives with, or stands for.
struct BuildFeatures {
  bool tensorflow = false;
  bool pytorch = false;
  bool mxnet = false;
  bool mpi = false;
  bool gloo = false;
  bool nccl_operations = false;
  bool mpi_operations = false;
  bool gloo_operations = false;
};

BuildFeatures this_build();

// `verbose`: an empty line first, as horovodrun has it.
std::string format_build(const BuildFeatures& features, bool verbose);

}  // namespace muster::cli::options
