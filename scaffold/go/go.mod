module example.org/provider

go 1.19
