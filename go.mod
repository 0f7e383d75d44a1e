module github.com/drover-project/drover

go 1.26
